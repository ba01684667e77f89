//! Asks a server program for its version and reads the answer.

use std::{
    ffi::OsStr,
    fmt,
    io::{self, Read},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// How long a program may take to print its version or to end after doing nothing.
const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// The first two numbers of a server's version; suffixes such as `beta1` are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// For PostgreSQL the number that decides whether a data folder fits.
    pub major: u32,
    /// Zero if the program prints none.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Version {
    /// Runs `program --version`; the answer must begin with `name`.
    pub(crate) fn ask(program: &Path, name: &str) -> Result<Self, String> {
        let text = output(program, ["--version"])
            .map_err(|error| format!("{} does not run: {error}", program.display()))?;
        Self::parse(&text, name)
            .ok_or_else(|| format!("{} does not print a version", program.display()))
    }

    /// Reads `postgres (PostgreSQL) 15.18 (Debian …)`, `nats-server: v2.15.1` and their like.
    fn parse(text: &str, name: &str) -> Option<Self> {
        let rest = text.trim_start().strip_prefix(name)?;
        rest.split_whitespace().find_map(|word| {
            let word = word.strip_prefix('v').unwrap_or(word);
            let (major, rest) = leading_number(word)?;
            let minor = rest.strip_prefix('.').and_then(leading_number);
            Some(Self { major, minor: minor.map_or(0, |(number, _)| number) })
        })
    }
}

fn leading_number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest))
}

/// What `program` prints; an error if it fails or does not end within a few seconds. Meant for
/// one line of output: more than a pipe holds would never be read.
pub(crate) fn output<I>(program: &Path, args: I) -> io::Result<String>
where
    I: IntoIterator,
    I::Item: AsRef<OsStr>,
{
    let mut child = Command::new(program)
        .args(args)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let end = Instant::now() + PROBE_LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    if !status.success() {
        return Err(io::Error::other(status.to_string()));
    }
    let mut text = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut text)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn versions_are_read_as_the_programs_print_them() {
        let postgres = |text| Version::parse(text, "postgres (PostgreSQL)");
        let nats = |text| Version::parse(text, "nats-server");
        let version = |major, minor| Some(Version { major, minor });
        assert_eq!(
            postgres("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"),
            version(15, 18)
        );
        assert_eq!(postgres("postgres (PostgreSQL) 18beta1\n"), version(18, 0));
        assert_eq!(nats("nats-server: v2.15.1\n"), version(2, 15));
        assert_eq!(nats("nats-server: v2.10.0-RC.3\n"), version(2, 10));
        assert_eq!(postgres("nats-server: v2.15.1\n"), None);
        assert_eq!(nats("nats-server: unknown\n"), None);
        assert_eq!(nats("nats-server: v99999999999.1\n"), None);
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(Version { major: 2, minor: 9 } < Version { major: 2, minor: 10 });
        assert!(Version { major: 2, minor: 99 } < Version { major: 15, minor: 0 });
    }
}
