//! Admission: one transaction takes a signal from the wire into the mailbox, or says why not.

use crate::{
    Error, Store,
    due::QueuedTurn,
    error::retrying,
    lane::{self, Lane, Outbound},
};
use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use turnwright_types::{
    Addressed, BindingId, ChannelKind, ConversationId, EventKey, Sha256, SignalId, subjects,
};
use uuid::Uuid;

/// Waking signals a conversation may hold; more are refused with a notice.
const MAILBOX_LIMIT: i64 = 1000;
/// Signals kept as context of the next turn: as many as a batch holds beside one that wakes.
const CONTEXT_LIMIT: i64 = 49;
/// How far a burst can put off its turn.
const DEBOUNCE_MAX_MS: i32 = 30_000;

/// A validated signal, as it is admitted.
#[derive(Clone, Debug)]
pub struct NewSignal {
    /// The adapter its subject names.
    pub adapter: String,
    /// The binding its subject names.
    pub binding: BindingId,
    /// Names the event in its binding.
    pub event_key: EventKey,
    /// Orders it among its channel's.
    pub order_key: String,
    /// The provider's id of the message.
    pub message_id: String,
    /// The provider's id of the message it answers, or empty.
    pub reply_to: String,
    /// The place.
    pub channel_kind: ChannelKind,
    /// The provider's id of the place.
    pub channel_id: String,
    /// The provider's id of the thread, or empty.
    pub thread_id: String,
    /// The place's name, or empty when the provider told none.
    pub channel_label: String,
    /// The provider's id of the sender.
    pub sender_id: String,
    /// The sender's name.
    pub sender_name: String,
    /// Posted by this binding's own agent.
    pub from_self: bool,
    /// Agents that handed it on.
    pub agent_hops: u32,
    /// How it addresses the agent.
    pub addressed: Addressed,
    /// Its text.
    pub text: String,
    /// When the provider says it happened.
    pub occurred_at: DateTime<Utc>,
    /// When the stream took it.
    pub published_at: DateTime<Utc>,
    /// The trace it began.
    pub traceparent: Option<String>,
}

/// Why a signal starts nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// The agent posted it.
    OwnPost,
    /// It does not address the agent, and the binding ignores such.
    Unaddressed,
    /// The mailbox is full.
    MailboxFull,
}

/// What admission did.
#[derive(Clone, Debug)]
pub enum Admitted {
    /// It was here before; nothing changed.
    Duplicate,
    /// No current binding of that adapter has this id.
    UnknownBinding,
    /// It is in the mailbox.
    Open {
        /// Its id.
        signal: SignalId,
        /// Its conversation.
        conversation: ConversationId,
        /// A turn that it woke, to be dispatched.
        turn: Option<QueuedTurn>,
    },
    /// It has its disposition already.
    Closed {
        /// Its id.
        signal: SignalId,
        /// Its conversation.
        conversation: ConversationId,
        /// Why.
        why: Ignored,
    },
}

impl Store {
    /// Admits a signal. A repeat of the same binding and event key changes nothing, for ever.
    /// The agent's `conversation.debounce_ms` puts off the turn it wakes.
    ///
    /// # Errors
    /// When PostgreSQL is away; nothing was written.
    pub async fn admit(&self, signal: &NewSignal) -> Result<Admitted, Error> {
        retrying!(self.admit_once(signal))
    }

    async fn admit_once(&self, new: &NewSignal) -> Result<Admitted, Error> {
        let mut tx = self.pool.begin().await?;
        let Some(binding) = sqlx::query!(
            "select b.agent, b.unaddressed,
                    (select t.value from control.settings t
                      where t.key = 'conversation.debounce_ms' and t.agent in (b.agent, '')
                        and t.rev_to is null order by t.agent desc limit 1) as debounce_ms
               from control.bindings b
              where b.id = $1 and b.adapter = $2 and b.rev_to is null",
            new.binding.as_str(),
            new.adapter
        )
        .fetch_optional(&mut *tx)
        .await?
        else {
            return Ok(Admitted::UnknownBinding);
        };
        let debounce_ms = match binding.debounce_ms {
            None => 0,
            Some(v) => (v.as_i64().and_then(|n| i32::try_from(n).ok()))
                .ok_or_else(|| Error::corrupt("conversation.debounce_ms", v))?,
        };
        let id = SignalId::new();
        let key = Sha256::of(subjects::signal_message_id(&new.binding, &new.event_key));
        let fresh = sqlx::query!(
            "insert into control.signal_keys (key_sha256, signal) values ($1, $2)
             on conflict do nothing",
            key.as_bytes().as_slice(),
            id.uuid()
        )
        .execute(&mut *tx)
        .await?;
        if fresh.rows_affected() == 0 {
            return Ok(Admitted::Duplicate);
        }
        let (lane, sender) = place(&mut tx, new, &binding.agent).await?;
        let why = refusal(&mut tx, &lane, new, &binding.unaddressed).await?;
        insert_signal(&mut tx, id, &lane, sender, new, why).await?;
        let conversation = ConversationId::from(lane.conversation);
        if let Some(why) = why {
            if why == Ignored::MailboxFull {
                mailbox_notice(&mut tx, &lane, id).await?;
            }
            tx.commit().await?;
            return Ok(Admitted::Closed { signal: id, conversation, why });
        }
        let turn = if wakes(new) { wake(&mut tx, &lane, new, debounce_ms).await? } else { None };
        tx.commit().await?;
        Ok(Admitted::Open { signal: id, conversation, turn })
    }

    /// Puts aside what cannot be admitted. A repeat of the same stream message changes nothing.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn quarantine(
        &self,
        subject: &str,
        stream_seq: i64,
        reason: &str,
        payload: &[u8],
    ) -> Result<(), Error> {
        sqlx::query!(
            "insert into control.signal_quarantine (subject, stream_seq, reason, payload)
             values ($1, $2, $3, $4) on conflict do nothing",
            subject,
            stream_seq,
            reason,
            payload
        )
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}

/// Whether a signal starts a turn: it addresses the agent, and no agent wrote it.
fn wakes(new: &NewSignal) -> bool {
    new.addressed != Addressed::None && !new.from_self && new.agent_hops == 0
}

/// Brings channel mirror, principal and conversation up to date and locks the conversation.
async fn place(db: &mut PgConnection, new: &NewSignal, agent: &str) -> Result<(Lane, Uuid), Error> {
    let (channel, sender) = (channel(db, new).await?, principal(db, new).await?);
    let made = sqlx::query_scalar!(
        "insert into control.conversations (id, agent, binding, channel, key)
         values ($1, $2, $3, $4, $5)
         on conflict on constraint conversations_channel do nothing returning id",
        Uuid::now_v7(),
        agent,
        new.binding.as_str(),
        channel,
        conversation_key(new)
    )
    .fetch_optional(&mut *db)
    .await?;
    let conversation = match made {
        Some(id) => {
            begin_generation(db, id, new).await?;
            id
        }
        None => {
            sqlx::query_scalar!(
                "select id from control.conversations
                  where agent = $1 and binding = $2 and channel = $3",
                agent,
                new.binding.as_str(),
                channel
            )
            .fetch_one(&mut *db)
            .await?
        }
    };
    Ok((lane::lock(db, conversation).await?, sender))
}

/// The channel of a signal. A name that is known already is only read: a write would hold the row
/// against every other conversation of the place until the commit.
async fn channel(db: &mut PgConnection, new: &NewSignal) -> Result<Uuid, Error> {
    let known = sqlx::query_scalar!(
        "select id from control.channels
          where binding = $1 and external_id = $2 and thread_id = $3 and ($4 = '' or label = $4)",
        new.binding.as_str(),
        new.channel_id,
        new.thread_id,
        new.channel_label
    )
    .fetch_optional(&mut *db)
    .await?;
    if let Some(id) = known {
        return Ok(id);
    }
    Ok(sqlx::query_scalar!(
        r#"insert into control.channels as c (id, binding, external_id, thread_id, kind, label)
           values ($1, $2, $3, $4, $5, $6)
           on conflict on constraint channels_external do update
             set label = case when excluded.label = '' then c.label else excluded.label end,
                 updated_at = now()
           returning id"#,
        Uuid::now_v7(),
        new.binding.as_str(),
        new.channel_id,
        new.thread_id,
        new.channel_kind.as_str(),
        new.channel_label,
    )
    .fetch_one(db)
    .await?)
}

/// The sender of a signal, as [`channel`].
async fn principal(db: &mut PgConnection, new: &NewSignal) -> Result<Uuid, Error> {
    let known = sqlx::query_scalar!(
        "select id from control.principals
          where binding = $1 and external_id = $2 and ($3 = '' or display_name = $3)",
        new.binding.as_str(),
        new.sender_id,
        new.sender_name
    )
    .fetch_optional(&mut *db)
    .await?;
    if let Some(id) = known {
        return Ok(id);
    }
    Ok(sqlx::query_scalar!(
        r#"insert into control.principals as p (id, binding, external_id, kind, display_name)
           values ($1, $2, $3, $4, $5)
           on conflict on constraint principals_external do update
             set display_name = case when excluded.display_name = '' then p.display_name
                                     else excluded.display_name end,
                 updated_at = now()
           returning id"#,
        Uuid::now_v7(),
        new.binding.as_str(),
        new.sender_id,
        if new.from_self || new.agent_hops > 0 { "agent" } else { "person" },
        new.sender_name,
    )
    .fetch_one(db)
    .await?)
}

/// `binding/channel` or `binding/channel/thread`; a slash inside a provider's id is escaped, so
/// that two places never share a key.
fn conversation_key(new: &NewSignal) -> String {
    let part = |id: &str| id.replace('%', "%25").replace('/', "%2F");
    let place = format!("{}/{}", new.binding, part(&new.channel_id));
    match new.thread_id.as_str() {
        "" => place,
        thread => format!("{place}/{}", part(thread)),
    }
}

/// Freezes the origin: a direct message is named after its peer, any other place after itself.
async fn begin_generation(
    db: &mut PgConnection,
    conversation: Uuid,
    new: &NewSignal,
) -> Result<(), Error> {
    let label = match new.channel_kind {
        ChannelKind::Dm if new.sender_name.is_empty() => &new.sender_id,
        ChannelKind::Dm => &new.sender_name,
        ChannelKind::Group | ChannelKind::Thread | ChannelKind::Webhook => &new.channel_label,
    };
    sqlx::query!(
        "insert into control.generations
           (conversation, generation, gateway_conversation, origin_adapter, origin_kind, origin_label)
         values ($1, 1, $2, $3, $4, $5)",
        conversation,
        Uuid::now_v7(),
        new.adapter,
        new.channel_kind.as_str(),
        label
    )
    .execute(db)
    .await?;
    Ok(())
}

async fn refusal(
    db: &mut PgConnection,
    lane: &Lane,
    new: &NewSignal,
    unaddressed: &str,
) -> Result<Option<Ignored>, Error> {
    if new.from_self {
        return Ok(Some(Ignored::OwnPost));
    }
    if new.addressed == Addressed::None && unaddressed == "ignore" {
        return Ok(Some(Ignored::Unaddressed));
    }
    if !wakes(new) {
        return Ok(None);
    }
    let open = sqlx::query_scalar!(
        r#"select count(*) as "n!" from (select from control.mailbox
            where conversation = $1 and wakes limit $2) m"#,
        lane.conversation,
        MAILBOX_LIMIT
    )
    .fetch_one(db)
    .await?;
    Ok((open >= MAILBOX_LIMIT).then_some(Ignored::MailboxFull))
}

async fn insert_signal(
    db: &mut PgConnection,
    id: SignalId,
    lane: &Lane,
    sender: Uuid,
    new: &NewSignal,
    why: Option<Ignored>,
) -> Result<(), Error> {
    let (disposition, reason) = match why {
        None => (None, None),
        Some(Ignored::OwnPost) => (Some("recorded"), None),
        Some(Ignored::Unaddressed) => (Some("rejected"), Some("unaddressed")),
        Some(Ignored::MailboxFull) => (Some("rejected"), Some("mailbox_full")),
    };
    // What the binding ignores is not kept.
    let body = if why == Some(Ignored::Unaddressed) { "" } else { new.text.as_str() };
    sqlx::query!(
        "insert into control.signals (id, conversation, binding, event_key, order_key, message_id,
           reply_to, sender, sender_name, addressed, wakes, body, traceparent, occurred_at,
           published_at, disposition, disposition_reason, disposed_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
                 case when $16::text is null then null else now() end)",
        id.uuid(),
        lane.conversation,
        new.binding.as_str(),
        new.event_key.as_str(),
        new.order_key,
        new.message_id,
        new.reply_to,
        sender,
        new.sender_name,
        new.addressed.as_str(),
        wakes(new),
        body,
        new.traceparent,
        new.occurred_at,
        new.published_at,
        disposition,
        reason
    )
    .execute(&mut *db)
    .await?;
    if why.is_none() {
        sqlx::query!(
            "with lane as (update control.conversations set mailbox_seq = mailbox_seq + 1
                            where id = $1 returning mailbox_seq)
             insert into control.mailbox (signal, conversation, seq, wakes, order_key, bytes)
             select $2, $1, lane.mailbox_seq, $3, $4, $5 from lane",
            lane.conversation,
            id.uuid(),
            wakes(new),
            new.order_key,
            i32::try_from(new.text.len()).unwrap_or(i32::MAX)
        )
        .execute(&mut *db)
        .await?;
        if !wakes(new) {
            forget_old_context(db, lane).await?;
        }
    }
    Ok(())
}

/// Keeps the newest context only; what falls out was recorded and woke nobody.
async fn forget_old_context(db: &mut PgConnection, lane: &Lane) -> Result<(), Error> {
    sqlx::query!(
        "with old as (
           delete from control.mailbox where signal in (
             select signal from control.mailbox
              where conversation = $1 and turn is null and not wakes
              order by order_key desc, seq desc offset $2)
           returning signal)
         update control.signals s set disposition = 'recorded', disposed_at = now()
           from old where s.id = old.signal",
        lane.conversation,
        CONTEXT_LIMIT
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Starts a turn, or puts off the queued one while a burst lasts.
async fn wake(
    db: &mut PgConnection,
    lane: &Lane,
    new: &NewSignal,
    debounce_ms: i32,
) -> Result<Option<QueuedTurn>, Error> {
    let live = sqlx::query!(
        "select id, state from control.turns
          where conversation = $1 and state in ('queued', 'running', 'waiting', 'cancelling')",
        lane.conversation
    )
    .fetch_optional(&mut *db)
    .await?;
    let Some(live) = live else {
        return lane::queue_turn(db, lane, new.traceparent.as_deref(), debounce_ms).await.map(Some);
    };
    if live.state == "queued" && debounce_ms > 0 {
        sqlx::query!(
            "update control.turns set not_before = greatest(not_before, least(
               now() + make_interval(secs => $2::int / 1000.0),
               created_at + make_interval(secs => $3::int / 1000.0)))
             where id = $1 and not_before > now()",
            live.id,
            debounce_ms,
            DEBOUNCE_MAX_MS
        )
        .execute(db)
        .await?;
    }
    Ok(None)
}

/// Once per conversation and hour.
async fn mailbox_notice(db: &mut PgConnection, lane: &Lane, signal: SignalId) -> Result<(), Error> {
    let hour = Utc::now().timestamp() / 3600;
    let out = Outbound {
        origin: "notice",
        origin_key: format!("mailbox_full/{}/{hour}", lane.conversation),
        turn: None,
        epoch: lane.epoch,
        reply_signal: Some(signal.uuid()),
        text: "Too many messages are waiting here; this one was not taken. Please send it again \
               once I have answered.",
        traceparent: None,
    };
    lane::plan(db, lane, out).await?;
    Ok(())
}
