//! SHA-256 as a value: the name of a text in manifests, caches and blobs.

use serde::{Deserialize, Serialize};
use sha2::Digest as _;
use std::fmt;

/// A SHA-256 digest (FIPS 180-4); written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256([u8; 32]);

impl Sha256 {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// From 32 bytes, as a database column holds them; `None` for another length.
    #[must_use]
    pub fn from_bytes(raw: &[u8]) -> Option<Self> {
        raw.try_into().ok().map(Self)
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{self}")
    }
}

impl From<Sha256> for String {
    fn from(d: Sha256) -> Self {
        d.to_string()
    }
}

impl TryFrom<String> for Sha256 {
    type Error = crate::names::Invalid;
    fn try_from(raw: String) -> Result<Self, Self::Error> {
        hex::decode(&raw)
            .ok()
            .and_then(|b| Self::from_bytes(&b))
            .ok_or_else(|| crate::names::Invalid::new("sha256", "expected 64 hexadecimal digits"))
    }
}
