//! Migrations are compiled in; a changed one must rebuild this crate.
fn main() {
    println!("cargo:rerun-if-changed=../../migrations");
}
