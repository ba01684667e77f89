//! The one writer of standard output. A reader that went away is no failure: what nobody reads is
//! not written, and the command goes on quietly.

use crate::{Error, table::Table};
use serde::Serialize;
use std::{
    borrow::Cow,
    fmt::Display,
    io::{self, IsTerminal as _, Write},
};

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs: one JSON value.
    Json,
}

/// Where a command prints.
pub struct Out {
    to: Box<dyn Write + Send>,
    format: Format,
    terminal: bool,
    closed: bool,
}

impl std::fmt::Debug for Out {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Out").field("format", &self.format).field("closed", &self.closed).finish()
    }
}

impl Out {
    /// Prints on standard output.
    #[must_use]
    pub fn stdout(format: Format) -> Self {
        let terminal = io::stdout().is_terminal();
        Self { to: Box::new(io::stdout()), format, terminal, closed: false }
    }

    /// Prints into `to`, for tests and files.
    #[must_use]
    pub fn to(to: Box<dyn Write + Send>, format: Format) -> Self {
        Self { to, format, terminal: false, closed: false }
    }

    /// How results are to be printed.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Prints bytes as they are, at once.
    ///
    /// # Errors
    /// When they cannot be written although somebody reads.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.closed {
            return Ok(());
        }
        match self.to.write_all(bytes).and_then(|()| self.to.flush()) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            Err(e) => Err(Error::failed("cannot write to standard output").because(e)),
        }
    }

    /// Prints text as it is.
    ///
    /// # Errors
    /// As [`Out::bytes`].
    pub fn text(&mut self, text: &str) -> Result<(), Error> {
        self.bytes(text.as_bytes())
    }

    /// Prints a line.
    ///
    /// # Errors
    /// As [`Out::bytes`].
    pub fn line(&mut self, line: impl Display) -> Result<(), Error> {
        self.text(&format!("{line}\n"))
    }

    /// Prints text from outside: on a terminal what could move the cursor is shown as an escape;
    /// into a pipe or file it goes as it is.
    ///
    /// # Errors
    /// As [`Out::bytes`].
    pub fn outside(&mut self, text: &str) -> Result<(), Error> {
        if self.terminal { self.text(&visible(text)) } else { self.text(text) }
    }

    /// Prints one JSON value.
    ///
    /// # Errors
    /// As [`Out::bytes`].
    pub fn json(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let mut text = serde_json::to_string_pretty(value)
            .map_err(|e| Error::failed("cannot write the result as json").because(e))?;
        text.push('\n');
        self.text(&text)
    }

    /// Prints rows under their headings.
    ///
    /// # Errors
    /// As [`Out::bytes`].
    pub fn table(&mut self, table: &Table) -> Result<(), Error> {
        let text = table.to_string();
        self.text(&text)
    }
}

/// The text without anything that a terminal would obey; line ends and tabs stay.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if obeyed(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken(io::ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_is_quiet_and_a_full_disk_is_not() {
        let mut gone = Out::to(Box::new(Broken(io::ErrorKind::BrokenPipe)), Format::Table);
        assert!(gone.line("a").is_ok() && gone.line("b").is_ok());
        let mut full = Out::to(Box::new(Broken(io::ErrorKind::StorageFull)), Format::Table);
        assert!(full.line("a").is_err());
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        assert_eq!(visible("a\tb\n"), "a\tb\n");
        assert_eq!(visible("\u{1b}[2J\r"), "\\u{1b}[2J\\u{d}");
    }
}
