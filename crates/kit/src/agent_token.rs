//! Short-lived signed tokens (JWT, EdDSA over Ed25519; RFC 7519, RFC 8037): signed by one
//! service, checked by another that holds only the public key.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt;

/// A key or a token that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The seed or public key is not 32 bytes of base64url.
    #[error("expected 32 bytes in base64url without padding")]
    Key,
    /// Signing or checking failed.
    #[error("agent token is not valid")]
    Jwt(#[source] jsonwebtoken::errors::Error),
}

fn key_bytes(raw: &str) -> Result<[u8; 32], TokenError> {
    URL_SAFE_NO_PAD.decode(raw).ok().and_then(|b| b.try_into().ok()).ok_or(TokenError::Key)
}

/// Makes a new signing seed, in base64url.
#[must_use]
pub fn new_seed() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
}

/// The public key of a seed, in base64url (the `x` of its JWK).
///
/// # Errors
/// When the seed is malformed.
pub fn public_key(seed: &str) -> Result<String, TokenError> {
    let key = ed25519_dalek::SigningKey::from_bytes(&key_bytes(seed)?);
    Ok(URL_SAFE_NO_PAD.encode(key.verifying_key().as_bytes()))
}

/// Signs tokens.
#[derive(Clone)]
pub struct Signer(EncodingKey);

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}

impl Signer {
    /// From a 32-byte seed in base64url.
    ///
    /// # Errors
    /// When the seed is malformed.
    pub fn from_seed(seed: &str) -> Result<Self, TokenError> {
        // PKCS #8 version 1 of an Ed25519 private key is this prefix and the seed (RFC 8410, §7).
        const PREFIX: [u8; 16] =
            [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
        let mut der = PREFIX.to_vec();
        der.extend_from_slice(&key_bytes(seed)?);
        Ok(Self(EncodingKey::from_ed_der(&der)))
    }

    /// Signs `claims`, which must hold `exp` and `aud`.
    ///
    /// # Errors
    /// When the claims cannot be encoded.
    pub fn sign(&self, claims: &impl Serialize) -> Result<String, TokenError> {
        jsonwebtoken::encode(&Header::new(Algorithm::EdDSA), claims, &self.0)
            .map_err(TokenError::Jwt)
    }
}

/// Checks tokens.
#[derive(Clone)]
pub struct Verifier {
    key: DecodingKey,
    rules: Validation,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

impl Verifier {
    /// From a public key in base64url; accepts only tokens for `audience` that have not expired.
    ///
    /// # Errors
    /// When the key is malformed.
    pub fn new(public_key: &str, audience: &str) -> Result<Self, TokenError> {
        key_bytes(public_key)?;
        let key = DecodingKey::from_ed_components(public_key).map_err(TokenError::Jwt)?;
        let mut rules = Validation::new(Algorithm::EdDSA);
        rules.set_audience(&[audience]);
        rules.leeway = 5;
        Ok(Self { key, rules })
    }

    /// The claims of a valid token.
    ///
    /// # Errors
    /// When signature, audience or expiry are wrong.
    pub fn verify<C: DeserializeOwned>(&self, token: &str) -> Result<C, TokenError> {
        jsonwebtoken::decode(token, &self.key, &self.rules)
            .map(|d| d.claims)
            .map_err(TokenError::Jwt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Claims {
        aud: String,
        exp: i64,
    }

    #[test]
    fn only_the_right_key_audience_and_time_pass() {
        let (seed, other) = (new_seed(), new_seed());
        let signer = Signer::from_seed(&seed).unwrap();
        let check = Verifier::new(&public_key(&seed).unwrap(), "a").unwrap();
        let good = Claims { aud: "a".into(), exp: 4_102_444_800 };
        let token = signer.sign(&good).unwrap();
        assert_eq!(check.verify::<Claims>(&token).unwrap(), good);
        let wrong_key = Verifier::new(&public_key(&other).unwrap(), "a").unwrap();
        assert!(wrong_key.verify::<Claims>(&token).is_err());
        for bad in
            [Claims { aud: "b".into(), exp: 4_102_444_800 }, Claims { aud: "a".into(), exp: 1 }]
        {
            assert!(check.verify::<Claims>(&signer.sign(&bad).unwrap()).is_err());
        }
        assert!(Signer::from_seed("short").is_err());
    }
}
