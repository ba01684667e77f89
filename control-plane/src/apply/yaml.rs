//! YAML with errors that say where.

use serde::de::DeserializeOwned;

/// A YAML file that cannot be taken.
pub(super) struct YamlError {
    /// `:12` for line 12, or empty.
    pub line: String,
    pub text: String,
}

/// Reads a document into its type.
pub(super) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, YamlError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| YamlError { line: String::new(), text: "not UTF-8".to_owned() })?;
    serde_saphyr::from_str(text).map_err(|e| {
        let line = e.location().map(|l| format!(":{}", l.line())).unwrap_or_default();
        // The first line says what is wrong; the rest draws the place.
        let text = e.to_string().lines().next().unwrap_or_default().to_owned();
        YamlError { line, text }
    })
}
