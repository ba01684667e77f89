//! The console as `chat` and `demo` use it: sends until it is sure, listens across reconnects.

use crate::{Connection, Error};
use futures::{StreamExt as _, stream::BoxStream};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use turnwright_adapters::{
    Client,
    api::{Agent, PostMessage},
    client::{self, Event},
};
use turnwright_kit::{Class, Classify as _, backoff::Backoff};

/// A console that restarts is back within this budget.
const TRIES: u32 = 40;
/// One that does not answer at the very start is given less: it may not run at all.
const FIRST_TRIES: u32 = 9;
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(2);

fn tries() -> Backoff {
    Backoff::new(FIRST, LONGEST, TRIES)
}

/// A client of the installation's console.
///
/// # Errors
/// When the connection's URL cannot be used.
pub fn client(connection: &Connection) -> Result<Client, Error> {
    Client::new(&connection.console, connection.token.clone()).map_err(refused)
}

/// Asks the console something at the start, while it may be restarting.
async fn insist<T, F>(mut ask: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, client::Error>>,
{
    let mut tries = Backoff::new(FIRST, LONGEST, FIRST_TRIES);
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(e) if e.class().retryable() => match tries.next() {
                Some(delay) => sleep(delay).await,
                None => return Err(refused(e)),
            },
            Err(e) => return Err(refused(e)),
        }
    }
}

/// The agents that can be written to.
///
/// # Errors
/// When the console does not answer or refuses.
pub async fn agents(client: &Client) -> Result<Vec<Agent>, Error> {
    insist(|| client.agents()).await
}

/// What a refusal of the console means to the caller.
pub fn refused(e: client::Error) -> Error {
    match e.class() {
        Class::Invalid
        | Class::Forbidden
        | Class::NotFound
        | Class::Conflict
        | Class::Exhausted => Error::failed("the console refuses the message").because(e),
        Class::Unauthenticated | Class::Timeout | Class::Unavailable | Class::Internal => {
            Error::setup("cannot talk to the console").because(e)
        }
    }
}

/// Sends a message until the console says that it is stored; repeating it is safe by its key.
/// Answers the key.
///
/// # Errors
/// When the console refuses it, or does not answer before the deadline.
pub async fn send(
    client: &Client,
    message: &PostMessage,
    deadline: Instant,
) -> Result<String, Error> {
    let mut tries = tries();
    loop {
        let late = || Error::setup("the console did not take the message in time");
        let sent = timeout_at(deadline, client.send(message)).await.map_err(|_| late())?;
        match sent {
            Ok(accepted) => return Ok(accepted.event_key.to_string()),
            Err(e) if e.class().retryable() => match tries.next() {
                Some(delay) if Instant::now() + delay < deadline => sleep(delay).await,
                Some(_) | None => return Err(refused(e)),
            },
            Err(e) => return Err(refused(e)),
        }
    }
}

/// The events of one conversation, from its beginning, across reconnects: no stored message is
/// missed or told twice; progress may be.
pub struct Listener {
    client: Client,
    agent: String,
    conversation: String,
    after: u64,
    live: Option<BoxStream<'static, Result<Event, client::Error>>>,
    tries: Backoff,
}

impl Listener {
    /// Begins to listen; returns once the console has agreed, so that nothing later is missed.
    ///
    /// # Errors
    /// When the console does not answer or refuses.
    pub async fn open(client: &Client, agent: &str, conversation: &str) -> Result<Self, Error> {
        let live = insist(|| client.events(agent, conversation, 0)).await?;
        Ok(Self {
            client: client.clone(),
            agent: agent.to_owned(),
            conversation: conversation.to_owned(),
            after: 0,
            live: Some(live),
            tries: tries(),
        })
    }

    /// The next event. Cancel safe.
    ///
    /// # Errors
    /// When the console refuses, or stays away for longer than a restart takes.
    pub async fn next(&mut self) -> Result<Event, Error> {
        loop {
            if let Some(live) = &mut self.live {
                match live.next().await {
                    Some(Ok(event)) => {
                        self.tries = tries();
                        if let Event::Message(message) = &event {
                            if message.index <= self.after {
                                continue;
                            }
                            self.after = message.index;
                        }
                        return Ok(event);
                    }
                    Some(Err(e)) if !e.class().retryable() => return Err(refused(e)),
                    Some(Err(_)) | None => self.live = None,
                }
            }
            self.reconnect().await?;
        }
    }

    async fn reconnect(&mut self) -> Result<(), Error> {
        loop {
            let delay = self.tries.next().ok_or_else(|| {
                Error::setup("the console went away; the message is kept, and is answered later")
            })?;
            sleep(delay).await;
            match self.client.events(&self.agent, &self.conversation, self.after).await {
                Ok(live) => {
                    self.live = Some(live);
                    return Ok(());
                }
                Err(e) if e.class().retryable() => {}
                Err(e) => return Err(refused(e)),
            }
        }
    }
}
