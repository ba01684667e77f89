//! The shape of the workspace: who may depend on whom, and what the wire contract is.

use cargo_metadata::{MetadataCommand, Package};
use prost::Message as _;
use std::collections::{BTreeMap, BTreeSet};
use turnwright_tests::programs::repository;

fn packages() -> BTreeMap<String, Package> {
    let metadata = MetadataCommand::new()
        .manifest_path(repository().join("Cargo.toml"))
        .other_options(vec!["--offline".into(), "--locked".into()])
        .exec()
        .expect("cargo metadata");
    let members: BTreeSet<_> = metadata.workspace_members.iter().cloned().collect();
    let ours = metadata.packages.into_iter().filter(|p| members.contains(&p.id));
    ours.map(|p| (p.name.to_string(), p)).collect()
}

fn needs(package: &Package) -> BTreeSet<&str> {
    let normal =
        package.dependencies.iter().filter(|d| d.kind == cargo_metadata::DependencyKind::Normal);
    normal.map(|d| d.name.as_str()).collect()
}

#[test]
fn dependencies_point_the_way_the_architecture_says() {
    let packages = packages();
    let sql = ["sqlx", "tokio-postgres", "deadpool-postgres"];
    let may_speak_sql = [
        "turnwright-control-store",
        "turnwright-gateway-store",
        "turnwright-ledger-check",
        // makes the database of a private cluster
        "turnwright-servers",
        "turnwright-tests",
    ];
    for (name, package) in &packages {
        let needs = needs(package);
        if !may_speak_sql.contains(&name.as_str()) {
            for driver in sql {
                assert!(!needs.contains(driver), "{name} must not depend on {driver}");
            }
        }
        let ours: Vec<_> = needs.iter().filter(|n| n.starts_with("turnwright-")).collect();
        match name.as_str() {
            "turnwright-types" => {
                for banned in ["tokio", "tonic", "sqlx", "prost", "async-nats"] {
                    assert!(!needs.contains(banned), "types must not depend on {banned}");
                }
                assert!(ours.is_empty(), "types stands alone, found {ours:?}");
            }
            "turnwright-kit" | "turnwright-servers" => {
                assert!(ours.is_empty(), "{name} knows no domain, found {ours:?}");
            }
            "turnwright-prompt" => {
                for banned in ["tokio", "tonic", "sqlx", "reqwest", "async-nats"] {
                    assert!(!needs.contains(banned), "prompt is pure, found {banned}");
                }
            }
            "turnwright-worker" | "turnwright-adapters" | "turnwright-gateway" => {
                for banned in ["turnwright-control-store", "turnwright-control-plane"] {
                    assert!(!needs.contains(banned), "{name} must not depend on {banned}");
                }
            }
            _ => {}
        }
        if name != "turnwright-tests" {
            assert!(!needs.contains("turnwright-tests"), "nothing depends on the tests");
        }
    }
}

#[test]
fn each_fixed_choice_is_a_direct_dependency_of_a_crate_that_uses_it() {
    let packages = packages();
    for (crate_name, user) in [
        ("tonic", "turnwright-control-plane"),
        ("prost", "turnwright-proto"),
        ("tokio", "turnwright-control-plane"),
        ("sqlx", "turnwright-control-store"),
        ("deadpool-postgres", "turnwright-control-store"),
        ("moka", "turnwright-control-plane"),
        ("async-nats", "turnwright-control-plane"),
        ("tracing-opentelemetry", "turnwright-kit"),
    ] {
        assert!(needs(&packages[user]).contains(crate_name), "{user} uses {crate_name}");
    }
}

#[test]
fn every_crate_takes_the_workspace_lints() {
    for (name, package) in packages() {
        let manifest = std::fs::read_to_string(&package.manifest_path).unwrap();
        let inherits = manifest.contains("[lints]\nworkspace = true");
        // Generated code trips them.
        assert_eq!(inherits, name != "turnwright-proto", "{name}");
    }
}

/// Every message, field, number and RPC, one a line: a change to the contract is a change to this
/// listing. `UPDATE_GOLDEN=1` writes it.
#[test]
fn the_wire_contract_is_the_committed_listing() {
    let set = prost_types::FileDescriptorSet::decode(turnwright_proto::DESCRIPTOR).unwrap();
    let mut lines = Vec::new();
    for file in set.file.iter().filter(|f| f.package() == "turnwright.v1") {
        for m in &file.message_type {
            for f in &m.field {
                let label = if f.label() == prost_types::field_descriptor_proto::Label::Repeated {
                    "repeated "
                } else {
                    ""
                };
                let kind = f.r#type().as_str_name().trim_start_matches("TYPE_").to_lowercase();
                let of = f.type_name().trim_start_matches('.');
                lines.push(format!(
                    "{}.{} = {} {label}{kind} {of}",
                    m.name(),
                    f.name(),
                    f.number()
                ));
            }
        }
        for e in &file.enum_type {
            lines.extend(
                e.value.iter().map(|v| format!("{}.{} = {}", e.name(), v.name(), v.number())),
            );
        }
        for s in &file.service {
            lines.extend(s.method.iter().map(|m| {
                format!("{}.{}({}) {}", s.name(), m.name(), m.input_type(), m.output_type())
            }));
        }
    }
    lines.sort_unstable();
    let text: String = lines.iter().map(|l| format!("{}\n", l.trim_end())).collect();
    let path = repository().join("proto/contract.txt");
    if turnwright_kit::config::Env::process().get("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "the contract changed; if it may, run with UPDATE_GOLDEN=1 and commit proto/contract.txt"
    );
}
