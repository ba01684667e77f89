//! Talking to an installation as its users do.

use super::{Keys, TestCluster};
use crate::eventually;
use futures::StreamExt as _;
use std::time::Duration;
use tonic::service::interceptor::InterceptedService;
use turnwright_adapters::{
    api::{By, PostMessage, Sender},
    client::Event,
};
use turnwright_kit::auth::CallerMetadata;
use turnwright_proto::v1::{self, admin_client::AdminClient};

/// The admin client of a test.
pub type Admin = AdminClient<InterceptedService<tonic::transport::Channel, CallerMetadata>>;

/// How long a test waits for anything.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// An agent's message at the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// What it says.
    pub text: String,
    /// The event key it answers.
    pub answers: String,
    /// The turn it came from.
    pub turn: String,
}

pub(super) async fn admin(keys: &Keys) -> Admin {
    let channel = tonic::transport::Endpoint::new(keys.control_url.clone())
        .expect("endpoint")
        .connect()
        .await
        .expect("connect to the control plane");
    AdminClient::with_interceptor(channel, CallerMetadata::new(&keys.operator).expect("token"))
}

pub(super) async fn apply(
    mut client: Admin,
    files: &[(String, String)],
    base_revision: Option<i64>,
) -> Result<v1::ApplyResponse, tonic::Status> {
    let files = files.iter().map(|(path, text)| v1::SourceFile {
        path: path.clone(),
        content: text.clone().into_bytes(),
        unreadable: String::new(),
    });
    let request = v1::ApplyRequest {
        files: files.collect(),
        base_revision,
        reason: "test".into(),
        author: "test".into(),
    };
    Ok(client.apply(request).await?.into_inner())
}

impl TestCluster {
    /// The admin API.
    pub async fn admin(&self) -> Admin {
        admin(&self.keys).await
    }

    /// The files of the test agent, to change and apply.
    #[must_use]
    pub fn agent_files() -> Vec<(String, String)> {
        super::parts::test_agent()
    }

    /// Applies files.
    ///
    /// # Errors
    /// What the control plane refused.
    pub async fn apply(
        &self,
        files: &[(String, String)],
    ) -> Result<v1::ApplyResponse, tonic::Status> {
        apply(self.admin().await, files, None).await
    }

    /// Applies the test agent with one file replaced or added.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn apply_with(&self, path: &str, text: &str) -> v1::ApplyResponse {
        let mut files = Self::agent_files();
        files.retain(|(p, _)| p != path);
        files.push((path.to_owned(), text.to_owned()));
        self.apply(&files).await.expect("apply")
    }

    /// Says something to `ada`; the event key.
    pub async fn say(&self, conversation: &str, text: &str) -> String {
        self.say_as(conversation, text, Sender::default()).await
    }

    /// Says something as somebody.
    ///
    /// # Panics
    /// When the console refuses.
    pub async fn say_as(&self, conversation: &str, text: &str, sender: Sender) -> String {
        let message = PostMessage {
            conversation: Some(conversation.to_owned()),
            sender: Some(sender),
            ..PostMessage::new("ada", text)
        };
        let accepted = self.console.send(&message).await.expect("the console takes the message");
        accepted.event_key.to_string()
    }

    /// What the agent has said in a conversation so far, in order.
    pub async fn replies(&self, conversation: &str) -> Vec<Reply> {
        let mut events =
            self.console.events("ada", conversation, 0).await.expect("events of the console");
        let mut out = Vec::new();
        // Stored messages come first, at once; silence means that there are no more.
        while let Ok(Some(event)) =
            tokio::time::timeout(Duration::from_millis(100), events.next()).await
        {
            if let Ok(Event::Message(m)) = event
                && let By::Agent(post) = m.by
            {
                out.push(Reply {
                    text: m.text,
                    answers: post.reply_event_key.unwrap_or_default(),
                    turn: post.turn_id.map(|t| t.to_string()).unwrap_or_default(),
                });
            }
        }
        out
    }

    /// Waits for the first reply to a message.
    pub async fn reply(&self, conversation: &str, event_key: &str) -> Reply {
        eventually("a reply arrives", PATIENCE, || async {
            let all = self.replies(conversation).await;
            let found = all.iter().find(|r| r.answers == event_key).cloned();
            found.ok_or_else(|| format!("{all:?}"))
        })
        .await
    }

    /// Says something and waits for the answer.
    pub async fn ask(&self, conversation: &str, text: &str) -> Reply {
        let key = self.say(conversation, text).await;
        self.reply(conversation, &key).await
    }

    /// Waits until the provider holds a request at a gate.
    ///
    /// # Panics
    /// When none comes.
    pub async fn held(&self, gate: &str) {
        let waiting = tokio::time::timeout(PATIENCE, self.gates.until_waiting(gate, 1..)).await;
        waiting.expect("a request comes to the gate").expect("the rules name the gate");
    }

    /// Waits until no turn is live and no delivery open.
    ///
    /// # Panics
    /// When that does not happen.
    pub async fn settled(&self) {
        let sql = self.database.owner().await;
        eventually("everything is settled", PATIENCE, || async {
            let row = sql
                .query_one(
                    "select (select count(*) from control.turns where ended_at is null),
                            (select count(*) from control.deliveries where settled_at is null),
                            (select count(*) from control.mailbox where wakes)",
                    &[],
                )
                .await
                .map_err(|e| e.to_string())?;
            let open: [i64; 3] = [row.get(0), row.get(1), row.get(2)];
            if open == [0, 0, 0] {
                Ok(())
            } else {
                Err(format!("turns, deliveries, mailbox: {open:?}"))
            }
        })
        .await;
    }
}
