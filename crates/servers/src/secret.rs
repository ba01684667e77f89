//! Passwords and tokens for private servers, and the check that what goes into their URLs,
//! configuration and SQL needs no escaping.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use crate::{ServerError, folder::if_there};

/// A new secret of 32 hexadecimal digits (128 random bits), safe in URLs and configuration.
pub fn random_secret() -> String {
    hex::encode(rand::random::<[u8; 16]>())
}

/// Writes a file that only its owner can read, in place of one that is there.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), ServerError> {
    let write = || -> io::Result<()> {
        if_there(fs::remove_file(path))?;
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())
    };
    write().map_err(ServerError::file("write", path))
}

/// Accepts 1 to 128 of `A-Z a-z 0-9 _ -`.
pub(crate) fn check_secret(option: &'static str, value: &str) -> Result<(), ServerError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if (1..=128).contains(&value.len()) && value.chars().all(plain) {
        return Ok(());
    }
    Err(ServerError::Option { option, wanted: "1 to 128 letters, digits, `_` or `-`" })
}

/// Accepts a PostgreSQL name that is the same with and without quotes.
pub(crate) fn check_identifier(option: &'static str, value: &str) -> Result<(), ServerError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts = value.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if starts && value.len() <= 63 && value.chars().all(plain) {
        return Ok(());
    }
    let wanted = "at most 63 lower-case letters, digits or `_`, not beginning with a digit";
    Err(ServerError::Option { option, wanted })
}

#[cfg(test)]
mod tests {
    use super::{check_identifier, check_secret, random_secret};

    #[test]
    fn random_secrets_differ_and_pass_the_check() {
        let (one, other) = (random_secret(), random_secret());
        assert_ne!(one, other);
        assert_eq!(one.len(), 32);
        check_secret("password", &one).unwrap();
    }

    #[test]
    fn what_would_need_escaping_is_refused() {
        for bad in ["", "a b", "a@b", "a/b", "a\"b", "a\nb", "ä", &"a".repeat(129)] {
            assert!(check_secret("password", bad).is_err(), "{bad:?}");
        }
        for bad in ["", "1a", "A", "a-b", "a\"b", "ä", &"a".repeat(64)] {
            assert!(check_identifier("database", bad).is_err(), "{bad:?}");
        }
        check_identifier("database", "turnwright_1").unwrap();
    }
}
