//! Deliveries: released in order per conversation, begun once, settled once.

use crate::{
    Error, Store,
    error::retrying,
    lane::{self, Outbound},
};
use chrono::{DateTime, Utc};
use turnwright_types::{ConversationId, DeliveryId, DeliveryState};
use uuid::Uuid;

/// The head of a lane, as its adapter must send it.
#[derive(Clone, Debug)]
pub struct DeliveryMessage {
    /// Its id and nonce.
    pub id: DeliveryId,
    /// Its conversation.
    pub conversation: ConversationId,
    /// The adapter kind.
    pub adapter: String,
    /// The binding.
    pub binding: String,
    /// The agent.
    pub agent: String,
    /// The provider's id of the place.
    pub channel_id: String,
    /// The provider's id of the thread, or empty.
    pub thread_id: String,
    /// The place's kind.
    pub channel_kind: String,
    /// The place's name.
    pub channel_label: String,
    /// The provider's id of the message it answers, or empty.
    pub reply_to: String,
    /// The event key of the signal it answers, or empty.
    pub reply_event_key: String,
    /// Markdown.
    pub body: String,
    /// The turn, if it belongs to one.
    pub turn: Option<Uuid>,
    /// `reply` or `notice`.
    pub origin: String,
    /// Place in its reply.
    pub ordinal: i32,
    /// Pieces of its reply.
    pub chunks: i32,
    /// Not to be sent later than this.
    pub not_after: DateTime<Utc>,
    /// The trace it belongs to.
    pub traceparent: Option<String>,
}

/// What an adapter says became of a delivery.
#[derive(Clone, Debug)]
pub enum Receipt {
    /// The provider has it.
    Sent {
        /// Under this id.
        provider_message_id: String,
    },
    /// The provider refused it.
    Failed {
        /// Why.
        detail: String,
    },
    /// It was too old to send.
    Expired {
        /// Why.
        detail: String,
    },
    /// Nobody can say.
    Unknown {
        /// Why.
        detail: String,
    },
}

/// The answer to a receipt.
#[derive(Clone, Debug)]
pub struct Settled {
    /// The delivery's state now.
    pub state: DeliveryState,
    /// Its conversation, whose next delivery may go.
    pub conversation: ConversationId,
}

/// A binding, as adapters see it.
#[derive(Clone, Debug)]
pub struct BindingInfo {
    /// Its id.
    pub id: String,
    /// Its agent.
    pub agent: String,
    /// The agent's name.
    pub agent_name: String,
    /// The longest message it can send, in bytes.
    pub max_message_bytes: i32,
}

impl Store {
    /// The head of a conversation's lane, if it is not settled.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn lane_head(
        &self,
        conversation: ConversationId,
    ) -> Result<Option<DeliveryMessage>, Error> {
        Ok(self.heads(Some(conversation.uuid()), 0.0).await?.pop())
    }

    /// Heads of lanes that have waited for `older_than_s`; the safety net. At most 200 of each
    /// binding, so that one whose adapter is away hides nobody else's.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn waiting_heads(&self, older_than_s: f64) -> Result<Vec<DeliveryMessage>, Error> {
        self.heads(None, older_than_s).await
    }

    async fn heads(
        &self,
        conversation: Option<Uuid>,
        older_than_s: f64,
    ) -> Result<Vec<DeliveryMessage>, Error> {
        Ok(sqlx::query_as!(
            DeliveryMessage,
            r#"select d.id as "id: Uuid", d.conversation as "conversation: Uuid", d.adapter, d.binding,
                      c.agent, h.external_id as channel_id, h.thread_id, h.kind as channel_kind,
                      h.label as channel_label, d.reply_to, d.reply_event_key, d.body, d.turn,
                      d.origin, d.ordinal, d.chunks, d.not_after, d.traceparent
                 from (select id, row_number() over (partition by binding order by planned_at) as nth
                         from (select distinct on (conversation) id, binding, planned_at
                                 from control.deliveries
                                where state in ('planned', 'begun')
                                  and ($1::uuid is null or conversation = $1)
                                order by conversation, lane_seq) h) head
                 join control.deliveries d on d.id = head.id
                 join control.conversations c on c.id = d.conversation
                 join control.channels h on h.id = d.channel
                where d.planned_at <= now() - make_interval(secs => $2) and head.nth <= 200"#,
            conversation,
            older_than_s
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// Begins the one attempt of a delivery. `Begun` means: send it now. Any other state, also a
    /// repeat by the same adapter, means: do not send.
    ///
    /// # Errors
    /// When the delivery does not exist or PostgreSQL is away.
    pub async fn begin_delivery(
        &self,
        id: DeliveryId,
        incarnation: &str,
    ) -> Result<(bool, DeliveryState), Error> {
        let mut tx = self.pool.begin().await?;
        let conversation = conversation_of(&mut tx, id).await?;
        lane::lock(&mut tx, conversation).await?;
        let begun = sqlx::query_scalar!(
            "update control.deliveries
                set state = case when not_after < now() then 'expired' else 'begun' end,
                    begun_at = now(), adapter_incarnation = $2,
                    settled_at = case when not_after < now() then now() end
              where id = $1 and state = 'planned' returning state",
            id.uuid(),
            incarnation
        )
        .fetch_optional(&mut *tx)
        .await?;
        let (go, raw) = match begun {
            Some(state) => (state == "begun", state),
            None => {
                let state = sqlx::query_scalar!(
                    "select state from control.deliveries where id = $1",
                    id.uuid()
                )
                .fetch_one(&mut *tx)
                .await?;
                (false, state)
            }
        };
        tx.commit().await?;
        let state = DeliveryState::parse(&raw).map_err(|e| Error::corrupt("delivery state", e))?;
        Ok((go, state))
    }

    /// Settles a delivery. A repeat changes nothing and answers the stored state.
    ///
    /// # Errors
    /// When the delivery does not exist or PostgreSQL is away.
    pub async fn settle_delivery(
        &self,
        id: DeliveryId,
        receipt: &Receipt,
    ) -> Result<Settled, Error> {
        retrying!(self.settle_once(id, receipt))
    }

    async fn settle_once(&self, id: DeliveryId, receipt: &Receipt) -> Result<Settled, Error> {
        let mut tx = self.pool.begin().await?;
        let conversation = conversation_of(&mut tx, id).await?;
        let lane = lane::lock(&mut tx, conversation).await?;
        let (state, message, detail) = match receipt {
            Receipt::Sent { provider_message_id } => {
                ("sent", Some(provider_message_id.as_str()), None)
            }
            Receipt::Failed { detail } => ("failed", None, Some(detail.as_str())),
            Receipt::Expired { detail } => ("expired", None, Some(detail.as_str())),
            Receipt::Unknown { detail } => ("unknown", None, Some(detail.as_str())),
        };
        let changed = sqlx::query!(
            "update control.deliveries
                set state = $2, provider_message_id = $3, detail = $4, settled_at = now()
              where id = $1 and state in ('planned', 'begun')
             returning turn, origin, ordinal, epoch",
            id.uuid(),
            state,
            message,
            detail
        )
        .fetch_optional(&mut *tx)
        .await?;
        if let Some(d) = changed
            && state != "sent"
            && d.origin == "reply"
        {
            end_reply(&mut tx, &lane, d.turn, d.ordinal, d.epoch).await?;
        }
        let stored =
            sqlx::query_scalar!("select state from control.deliveries where id = $1", id.uuid())
                .fetch_one(&mut *tx)
                .await?;
        tx.commit().await?;
        let state =
            DeliveryState::parse(&stored).map_err(|e| Error::corrupt("delivery state", e))?;
        Ok(Settled { state, conversation: conversation.into() })
    }

    /// Open deliveries that are too old to send, or begun so long ago that nobody will say what
    /// became of them; each with the receipt that settles it. At most 100.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn overdue(&self, silent_for_s: f64) -> Result<Vec<(DeliveryId, Receipt)>, Error> {
        let rows = sqlx::query!(
            "select id, state from control.deliveries
              where (state = 'planned' and not_after < now())
                 or (state = 'begun' and begun_at < now() - make_interval(secs => $1))
              order by planned_at limit 100",
            silent_for_s
        )
        .fetch_all(&self.pool)
        .await?;
        let settled = rows.into_iter().map(|r| {
            let receipt = if r.state == "planned" {
                Receipt::Expired { detail: "too old to send".to_owned() }
            } else {
                Receipt::Unknown { detail: "begun, and no receipt came".to_owned() }
            };
            (r.id.into(), receipt)
        });
        Ok(settled.collect())
    }

    /// The adapter kinds that have current bindings.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn adapters(&self) -> Result<Vec<String>, Error> {
        Ok(sqlx::query_scalar!(
            "select distinct adapter from control.bindings where rev_to is null order by adapter"
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// The current bindings of an adapter kind.
    ///
    /// # Errors
    /// When PostgreSQL is away.
    pub async fn bindings(&self, adapter: &str) -> Result<Vec<BindingInfo>, Error> {
        Ok(sqlx::query_as!(
            BindingInfo,
            "select b.id, b.agent, a.display_name as agent_name, b.max_message_bytes
               from control.bindings b
               join control.agents a on a.slug = b.agent and a.rev_to is null
              where b.adapter = $1 and b.rev_to is null order by b.id",
            adapter
        )
        .fetch_all(&self.pool)
        .await?)
    }
}

/// The conversation of a delivery, which never changes.
async fn conversation_of(db: &mut sqlx::PgConnection, id: DeliveryId) -> Result<Uuid, Error> {
    sqlx::query_scalar!("select conversation from control.deliveries where id = $1", id.uuid())
        .fetch_optional(db)
        .await?
        .ok_or_else(|| Error::NotFound { what: "delivery", name: id.to_string() })
}

/// A piece that did not arrive ends its own reply: the rest is skipped and told once.
async fn end_reply(
    db: &mut sqlx::PgConnection,
    lane: &lane::Lane,
    turn: Option<Uuid>,
    ordinal: i32,
    epoch: i64,
) -> Result<(), Error> {
    let Some(turn) = turn else { return Ok(()) };
    let skipped = sqlx::query!(
        "update control.deliveries set state = 'skipped', settled_at = now()
          where turn = $1 and origin = 'reply' and state = 'planned' and ordinal > $2",
        turn,
        ordinal
    )
    .execute(&mut *db)
    .await?;
    if skipped.rows_affected() == 0 {
        return Ok(());
    }
    let out = Outbound {
        origin: "notice",
        origin_key: format!("cut_reply/{turn}"),
        turn: Some(turn),
        epoch,
        reply_signal: None,
        text: "A part of my last answer may not have arrived, so I left out the rest of it.",
        traceparent: None,
    };
    lane::plan(db, lane, out).await?;
    Ok(())
}
