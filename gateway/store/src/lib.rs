//! Everything that is known about schema `gateway`: the transcripts, responses and replicas. The
//! only crate that speaks SQL on it; it knows nothing of HTTP, providers or models.
//!
//! One public function is one use case and, where it writes, one commit. Every write first locks
//! its conversation's row, so that what it read under the lock stays true until it commits.

mod begin;
mod conversation;
mod error;
mod finish;
mod item;
mod migrate;
mod pool;
mod prompt;
mod reconcile;
mod replica;
mod response;
mod turn;

pub use begin::{Begun, FencedRequest, NewResponse, Started, Target, begin_response};
pub use conversation::Writer;
pub use error::{Error, Missing, Result};
pub use finish::{End, Finish, Finished, finish_response};
pub use item::{Item, NewItem, new_item_id};
pub use migrate::migrate;
pub use pool::{Pool, connect, ping};
pub use prompt::turn_prompt;
pub use reconcile::{UNFINISHED_CALL, reconcile};
pub use replica::{OWNER_LEASE, leave, renew, sweep};
pub use response::{InputItems, StoredResponse, get_response, path_of, response_input_items};
pub use turn::{open_turn, store_outputs};
