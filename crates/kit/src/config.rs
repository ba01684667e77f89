//! The environment, read once. Every problem is collected, so that one start tells them all.

use std::{collections::BTreeMap, fmt, net::SocketAddr, str::FromStr, time::Duration};

/// Every problem found in the configuration, one line each.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError(pub Vec<String>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "configuration is not usable:")?;
        for line in &self.0 {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

/// A database URL as it may be shown: without credentials and options.
#[must_use]
pub fn without_credentials(url: &str) -> String {
    let bare = url.split('?').next().unwrap_or_default();
    match (bare.split_once("://"), bare.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        _ => bare.to_owned(),
    }
}

/// A reader over environment variables that remembers what was wrong.
#[derive(Debug)]
pub struct Env {
    vars: BTreeMap<String, String>,
    problems: Vec<String>,
}

impl Env {
    /// The process environment.
    #[must_use]
    pub fn process() -> Self {
        Self::of(std::env::vars())
    }

    /// Given variables, for tests and embedded services.
    pub fn of(vars: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { vars: vars.into_iter().collect(), problems: Vec::new() }
    }

    /// A variable, if it is set and not empty.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.vars.get(key).map(String::as_str).filter(|v| !v.is_empty())
    }

    /// Notes a problem of `key`.
    pub fn problem(&mut self, key: &str, why: impl fmt::Display) {
        self.problems.push(format!("{key}: {why}"));
    }

    /// A variable that must be there; `hint` says what to put in it.
    pub fn required(&mut self, key: &str, hint: &str) -> String {
        match self.get(key) {
            Some(v) => v.to_owned(),
            None => {
                self.problem(key, format_args!("must be set: {hint}"));
                String::new()
            }
        }
    }

    /// A parsed variable, or `default` when unset.
    pub fn parsed<T: FromStr>(&mut self, key: &str, default: T, expected: &str) -> T {
        let Some(raw) = self.get(key) else { return default };
        match raw.parse() {
            Ok(v) => v,
            Err(_) => {
                let why = format!("expected {expected}, found `{raw}`");
                self.problem(key, why);
                default
            }
        }
    }

    /// A listen address; port 0 asks for any free port.
    pub fn listen(&mut self, key: &str, default: SocketAddr) -> SocketAddr {
        self.parsed(key, default, "host:port, such as 127.0.0.1:7001")
    }

    /// A duration in milliseconds.
    pub fn millis(&mut self, key: &str, default: Duration) -> Duration {
        let fallback = u64::try_from(default.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.parsed(key, fallback, "a number of milliseconds"))
    }

    /// `value`, if nothing was wrong.
    ///
    /// # Errors
    /// Every problem noted so far.
    pub fn finish<T>(self, value: T) -> Result<T, ConfigError> {
        if self.problems.is_empty() { Ok(value) } else { Err(ConfigError(self.problems)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        let shown = without_credentials("postgres://me:s3cret@h:1/db?options=x");
        assert_eq!(shown, "postgres://h:1/db");
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let mut env = Env::of([("PORT".to_owned(), "x".to_owned())]);
        env.required("URL", "a URL");
        env.parsed("PORT", 1_u16, "a port");
        let ConfigError(problems) = env.finish(()).unwrap_err();
        assert_eq!(problems.len(), 2);
        assert!(problems[0].starts_with("URL:") && problems[1].starts_with("PORT:"));
    }
}
