//! Why the process cannot start. What a request is refused with is not here.

pub use crate::{console::JournalError, transport::ConnectError};

use turnwright_types::Invalid;

/// The adapter cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The message store cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// NATS is not there.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// NATS does not take the subscription to progress.
    #[error("cannot subscribe to the progress of turns")]
    Subscribe(#[from] async_nats::SubscribeError),
    /// The adapter's own name is not one.
    #[error(transparent)]
    Name(#[from] Invalid),
}
