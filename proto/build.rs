//! Compiles the `.proto` files without a `protoc` binary.

use prost::Message as _;
use std::{error::Error, path::PathBuf};

const FILES: &[&str] = &[
    "turnwright/v1/admin.proto",
    "turnwright/v1/broker.proto",
    "turnwright/v1/delivery.proto",
    "turnwright/v1/ledger.proto",
    "turnwright/v1/signal.proto",
    "turnwright/v1/turn.proto",
];

#[expect(clippy::disallowed_methods, reason = "cargo tells build scripts through the environment")]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=turnwright");
    let set = protox::compile(FILES, ["."])?;
    let bytes = set.encode_to_vec();
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptor.bin"), &bytes)?;
    tonic_prost_build::configure()
        .compile_well_known_types(true)
        .extern_path(".google.protobuf", "::pbjson_types")
        .bytes(".turnwright.v1.GetSkillResponse")
        .compile_fds(set)?;
    pbjson_build::Builder::new()
        .register_descriptors(&bytes)?
        .ignore_unknown_fields()
        .build(&[".turnwright.v1"])?;
    Ok(())
}
