//! The conversation of a demo: three messages through the console. The first needs a tool, the
//! second is answered slowly, the third is sent while the second is answered.

use crate::{
    Error, Out,
    chat::{
        console::{self, Listener},
        reply::{Reply, Update, closing},
    },
};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};
use turnwright_adapters::{
    Client,
    api::{By, Message, PostMessage, Sender},
    client::Event,
};

/// How long the whole conversation may take.
const LIMIT: Duration = Duration::from_secs(300);
/// A store that tells nothing for so long has told everything.
const IDLE: Duration = Duration::from_millis(300);

/// Who is talked to.
#[derive(Clone, Debug)]
pub struct Partner {
    /// The agent's slug.
    pub slug: String,
    /// Its display name.
    pub name: String,
    /// A skill of its catalogue, if it has one.
    pub skill: Option<String>,
}

/// A message and what became of it.
#[derive(Clone, Debug)]
pub struct Line {
    /// What was said.
    pub text: String,
    /// Stands in this message and in nothing else.
    pub nonce: String,
    /// Its reply; `None` until it is sent.
    pub reply: Option<Reply>,
}

impl Line {
    fn new(text: &str) -> Self {
        let nonce = hex::encode(rand::random::<[u8; 5]>());
        Self { text: format!("{text} (reference {nonce})"), nonce, reply: None }
    }

    /// The key of the message, once it is sent.
    #[must_use]
    pub fn event_key(&self) -> Option<&str> {
        self.reply.as_ref().map(Reply::event_key)
    }

    fn is_over(&self) -> bool {
        self.reply.as_ref().is_some_and(Reply::is_over)
    }

    fn is_taken_up(&self) -> bool {
        self.reply.as_ref().is_some_and(|reply| reply.turn_id().is_some())
    }
}

/// A conversation that was held.
#[derive(Clone, Debug)]
pub struct Talk {
    /// The messages, in order.
    pub lines: Vec<Line>,
    /// All that the console stored of the conversation, read again afterwards.
    pub stored: Vec<Message>,
}

impl Talk {
    /// Holds a conversation of its own and shows it as it goes. One that takes too long is over as
    /// far as it got: the checks will say so.
    ///
    /// # Errors
    /// When the console does not answer or refuses.
    pub async fn hold(client: &Client, partner: Partner, out: &mut Out) -> Result<Self, Error> {
        let request = match &partner.skill {
            Some(skill) => format!("Please look up {skill}."),
            None => "Please list files.".to_owned(),
        };
        let lines = vec![
            Line::new(&request),
            Line::new("Please answer slowly: what can you do for me?"),
            Line::new("And one more thing while you are at it: are you still there?"),
        ];
        let conversation = format!("demo-{}", hex::encode(rand::random::<[u8; 6]>()));
        let listener = Listener::open(client, &partner.slug, &conversation).await?;
        let said = Said::default();
        let mut stage = Dialogue { client, partner, conversation, listener, lines, said };
        let deadline = Instant::now() + LIMIT;
        while !stage.is_over() {
            if stage.may_speak() {
                stage.speak(deadline, out).await?;
            } else {
                match timeout_at(deadline, stage.listener.next()).await {
                    Ok(event) => stage.hear(&event?, out)?,
                    Err(_) => break,
                }
            }
        }
        let stored = stage.read_again().await?;
        Ok(Self { lines: stage.lines, stored })
    }
}

struct Dialogue<'a> {
    client: &'a Client,
    partner: Partner,
    conversation: String,
    listener: Listener,
    lines: Vec<Line>,
    said: Said,
}

/// What stands on the screen.
#[derive(Default)]
struct Said {
    /// The line whose reply is shown now; those before are shown whole.
    at: usize,
    /// What is shown of it.
    draft: String,
    /// Whether the cursor stands behind text.
    midway: bool,
}

impl Dialogue<'_> {
    fn is_over(&self) -> bool {
        self.lines.iter().all(Line::is_over)
    }

    fn next_line(&self) -> Option<usize> {
        self.lines.iter().position(|line| line.reply.is_none())
    }

    /// The second message waits for the first reply; the third only for the second to be taken up.
    fn may_speak(&self) -> bool {
        match self.next_line() {
            Some(0) => true,
            Some(at @ 1) => self.lines[at - 1].is_over(),
            Some(at) => self.lines[at - 1].is_taken_up(),
            None => false,
        }
    }

    async fn speak(&mut self, deadline: Instant, out: &mut Out) -> Result<(), Error> {
        let Some(at) = self.next_line() else { return Ok(()) };
        let during = at > 0 && !self.lines[at - 1].is_over();
        let text = self.lines[at].text.clone();
        self.break_line(out)?;
        let while_answering = if during { "(while the answer is written) " } else { "" };
        out.line(format_args!("you → {while_answering}{text}"))?;
        let mut message = PostMessage::new(&self.partner.slug, text);
        message.conversation = Some(self.conversation.clone());
        message.sender =
            Some(Sender { id: "visitor".to_owned(), display_name: "Visitor".to_owned() });
        let event_key = console::send(self.client, &message, deadline).await?;
        self.lines[at].reply = Some(Reply::to(event_key));
        Ok(())
    }

    fn hear(&mut self, event: &Event, out: &mut Out) -> Result<(), Error> {
        for at in 0..self.lines.len() {
            let Some(reply) = &mut self.lines[at].reply else { continue };
            if let Update::Tool(tool) = reply.observe(event)
                && at == self.said.at
            {
                self.break_line(out)?;
                self.said.draft.clear();
                out.outside(&format!("  · {tool}\n"))?;
            }
        }
        self.show(out)
    }

    /// Brings the screen up to date: the reply that is due, and those behind it that are ready.
    fn show(&mut self, out: &mut Out) -> Result<(), Error> {
        while let Some(reply) = self.lines.get(self.said.at).and_then(|line| line.reply.as_ref()) {
            let (draft, over) = (reply.draft().to_owned(), reply.is_over());
            if !over && (draft.is_empty() || draft == self.said.draft) {
                return Ok(());
            }
            let rest = closing(&self.said.draft, &reply.text());
            let whole = over && rest == "\n";
            if !self.said.midway && !whole {
                out.outside(&format!("{} → ", self.partner.name))?;
            }
            if over {
                if self.said.midway || !whole {
                    out.outside(&rest)?;
                }
                self.said = Said { at: self.said.at + 1, ..Said::default() };
                continue;
            }
            self.said.midway = true;
            let more = match draft.strip_prefix(self.said.draft.as_str()) {
                Some(more) => more.to_owned(),
                // Another worker began anew.
                None => format!("\n{draft}"),
            };
            out.outside(&more)?;
            self.said.draft = draft;
            return Ok(());
        }
        Ok(())
    }

    fn break_line(&mut self, out: &mut Out) -> Result<(), Error> {
        if std::mem::take(&mut self.said.midway) { out.line("") } else { Ok(()) }
    }

    /// What the console has stored, from a reader that has seen nothing yet.
    async fn read_again(&self) -> Result<Vec<Message>, Error> {
        let mut fresh = Listener::open(self.client, &self.partner.slug, &self.conversation).await?;
        let mut stored = Vec::new();
        while let Ok(event) = timeout(IDLE, fresh.next()).await {
            if let Event::Message(message) = event? {
                stored.push(message);
            }
        }
        Ok(stored)
    }
}

/// The messages of a reply, by the key of what it answers.
pub fn replies_to<'a>(
    stored: &'a [Message],
    event_key: &'a str,
) -> impl Iterator<Item = &'a Message> {
    stored.iter().filter(move |message| match &message.by {
        By::Agent(agent) => {
            agent.origin == "reply" && agent.reply_event_key.as_deref() == Some(event_key)
        }
        By::User(_) => false,
    })
}
