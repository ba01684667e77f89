//! The wire contract of Turnwright: generated messages and services, their JSON form (ProtoJSON),
//! and the conversions to and from domain types. Wire types stop at the edge of each service.

pub mod convert;

/// Generated from `turnwright/v1/*.proto`.
#[expect(clippy::large_enum_variant, reason = "generated; a message is moved, not copied")]
pub mod v1 {
    tonic::include_proto!("turnwright.v1");
    include!(concat!(env!("OUT_DIR"), "/turnwright.v1.serde.rs"));
}

/// The encoded `FileDescriptorSet`, for reflection and for the field listing.
pub const DESCRIPTOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptor.bin"));

/// The largest gRPC message any service accepts, in bytes: an applied folder with its files.
pub const MAX_MESSAGE_BYTES: usize = 32 << 20;
