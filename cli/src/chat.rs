//! `turnwright chat`: one message and its reply, or a conversation line by line. It waits for the
//! reply to its own message and for no other.

pub mod console;
pub mod reply;

use crate::{Connection, Error, Format, Out, args::ChatArgs};
use console::Listener;
use reply::{Reply, Update, closing};
use serde_json::json;
use std::{
    io::{self, BufRead as _, IsTerminal as _, Read as _},
    time::Duration,
};
use tokio::{sync::mpsc, time::Instant};
use turnwright_adapters::{
    Client,
    api::{MAX_TEXT_BYTES, Message, PostMessage, Sender},
};

/// Runs the command.
///
/// # Errors
/// When the agent does not exist, the turn fails, no reply comes in time, or the console does not
/// answer.
pub async fn run(args: &ChatArgs, connection: &Connection, out: &mut Out) -> Result<(), Error> {
    let client = console::client(connection)?;
    known(&client, &args.agent).await?;
    let mut chat = Chat {
        args,
        listener: Listener::open(&client, &args.agent, &args.conversation).await?,
        client: &client,
    };
    if let Some(message) = &args.message {
        return chat.say(message, out).await;
    }
    if !io::stdin().is_terminal() {
        return chat.say(&piped().await?, out).await;
    }
    chat.talk(out).await
}

/// Refuses an agent that nobody can write to, and names those that are there.
async fn known(client: &Client, slug: &str) -> Result<(), Error> {
    let agents = console::agents(client).await?;
    if agents.iter().any(|a| a.agent.as_str() == slug) {
        return Ok(());
    }
    let names: Vec<_> = agents.iter().map(|a| a.agent.as_str()).collect();
    Err(Error::failed(if names.is_empty() {
        format!(
            "there is no agent `{slug}`, and no other; apply one with `turnwright apply -f DIR`"
        )
    } else {
        format!("there is no agent `{slug}`; there are: {}", names.join(", "))
    }))
}

/// The whole of standard input as one message, without its last line end.
async fn piped() -> Result<String, Error> {
    let read = tokio::task::spawn_blocking(|| {
        let mut text = String::new();
        // One byte more than a message may have tells that it is too long.
        let limit = u64::try_from(MAX_TEXT_BYTES).unwrap_or(u64::MAX).saturating_add(2);
        io::stdin().take(limit).read_to_string(&mut text).map(|_| text)
    });
    let unreadable = || Error::setup("cannot read the message from standard input");
    let text = read.await.map_err(|e| unreadable().because(e))?;
    let text = text.map_err(|e| unreadable().because(e))?;
    let text = text.trim_end_matches(['\n', '\r']).to_owned();
    if text.is_empty() {
        return Err(Error::setup("no message: pass one as an argument or on standard input"));
    }
    if text.len() > MAX_TEXT_BYTES {
        return Err(Error::setup(format!("a message has at most {MAX_TEXT_BYTES} bytes")));
    }
    Ok(text)
}

struct Chat<'a> {
    args: &'a ChatArgs,
    client: &'a Client,
    listener: Listener,
}

impl Chat<'_> {
    /// Sends one message and shows its reply as it comes.
    async fn say(&mut self, text: &str, out: &mut Out) -> Result<(), Error> {
        let mut message = PostMessage::new(&self.args.agent, text);
        message.conversation = Some(self.args.conversation.clone());
        message.sender =
            self.args.sender.clone().map(|name| Sender { id: name.clone(), display_name: name });
        let deadline = Instant::now() + Duration::from_secs(self.args.timeout);
        let event_key = console::send(self.client, &message, deadline).await?;
        let mut reply = Reply::to(event_key);
        let seconds = self.args.timeout;
        match tokio::time::timeout_at(deadline, self.follow(&mut reply, out)).await {
            Ok(end) => end,
            Err(_) => Err(Error::failed(format!(
                "no reply within {seconds} s; the message is kept, and `turnwright turn list` says \
                 how its turn stands"
            ))),
        }
    }

    async fn follow(&mut self, reply: &mut Reply, out: &mut Out) -> Result<(), Error> {
        loop {
            let event = self.listener.next().await?;
            let streams = out.format() == Format::Table;
            let draft = reply.draft().to_owned();
            match reply.observe(&event) {
                Update::Text { text, again } if streams => {
                    if again {
                        out.line("")?;
                    }
                    out.outside(&text)?;
                }
                Update::Tool(_) if streams && !draft.is_empty() => out.line("")?,
                Update::Complete if streams => return out.outside(&closing(&draft, &reply.text())),
                Update::Complete => return self.print(reply, "completed", out),
                Update::Notice => {
                    if streams {
                        let line = if draft.is_empty() { "" } else { "\n" };
                        out.outside(&format!("{line}{}\n", reply.text()))?;
                    } else {
                        self.print(reply, "failed", out)?;
                    }
                    return Err(Error::failed(format!(
                        "the turn failed; see `turnwright turn show {}`",
                        reply.turn_id().unwrap_or("latest")
                    )));
                }
                Update::Text { .. } | Update::Tool(_) | Update::Started | Update::Nothing => {}
            }
        }
    }

    fn print(&self, reply: &Reply, state: &str, out: &mut Out) -> Result<(), Error> {
        let messages: Vec<&Message> = reply.messages().collect();
        out.json(&json!({
            "conversation": self.args.conversation,
            "agent": self.args.agent,
            "event_key": reply.event_key(),
            "turn_id": reply.turn_id(),
            "state": state,
            "text": reply.text(),
            "messages": messages,
        }))
    }

    /// A conversation on a terminal, until its end of input.
    async fn talk(&mut self, out: &mut Out) -> Result<(), Error> {
        let mut lines = typed()?;
        loop {
            if out.format() == Format::Table {
                out.text("> ")?;
            }
            let Some(line) = lines.recv().await else { return out.line("") };
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            // A failed turn ends the message, not the conversation.
            match self.say(line, out).await {
                Err(e @ Error::Failed { .. }) => {
                    e.tell();
                }
                end => end?,
            }
        }
    }
}

/// Lines of the terminal. The thread that waits for them is left behind at the end: nothing can
/// wake it.
fn typed() -> Result<mpsc::Receiver<String>, Error> {
    let (sender, receiver) = mpsc::channel(16);
    let read = move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(read)
        .map_err(|e| Error::setup("cannot read the terminal").because(e))?;
    Ok(receiver)
}
