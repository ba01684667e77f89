//! Begins a response: one commit with the input items, the prompt's manifest and baseline and the
//! row that says who generates it, before any provider is asked. What is committed here stays,
//! whatever becomes of the response.

mod place;

use crate::{
    conversation::{Writer, advance},
    error::{Result, Tries},
    item::{Item, NewItem, Spot, append, path},
    pool::Pool,
    reconcile::reconcile,
};
use chrono::{DateTime, Utc};
use place::{Place, Placed};
use serde_json::Value;
use sqlx::PgConnection;
use turnwright_types::{Fence, GatewayConversationId, ResponseId, Sha256};
use uuid::Uuid;

/// A response to begin.
#[derive(Clone, Debug)]
pub struct NewResponse {
    /// Its id, made by the caller so that it can account for it whatever happens.
    pub id: ResponseId,
    /// The replica that will generate it.
    pub owner: Uuid,
    /// Where it goes.
    pub target: Target,
    /// The items the request brings, in order.
    pub input: Vec<NewItem>,
    /// The exact instructions.
    pub instructions: Option<String>,
    /// The model asked for.
    pub model: String,
    /// The other request parameters.
    pub parameters: Value,
}

/// Where a response goes.
#[derive(Clone, Debug)]
pub enum Target {
    /// The next request of an agent's turn.
    Fenced(Box<FencedRequest>),
    /// After another response, or the start of a chain.
    Chain {
        /// The response it continues.
        previous: Option<ResponseId>,
    },
    /// At the end of an unfenced conversation.
    Conversation(GatewayConversationId),
}

/// What a fenced request carries beside the request itself.
#[derive(Clone, Debug)]
pub struct FencedRequest {
    /// Who writes.
    pub writer: Writer,
    /// Its number in the turn; with the fence its idempotency key.
    pub request_no: i32,
    /// The head it builds on.
    pub head: i64,
    /// The prompt manifest.
    pub manifest: Value,
    /// What the conversation has been told by now.
    pub baseline: Value,
    /// The base instructions inside the instructions.
    pub base_instructions: String,
}

/// What beginning a response came to.
#[derive(Debug)]
pub enum Begun {
    /// It was begun; the provider may be asked.
    New(Started),
    /// The same fenced request began this response before.
    Repeat(ResponseId),
}

/// A begun response.
#[derive(Debug)]
pub struct Started {
    /// The conversation it is in.
    pub conversation: GatewayConversationId,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
    /// The head after its input.
    pub head: i64,
    /// The whole path to send, its input included.
    pub path: Vec<Item>,
}

/// Begins a response.
///
/// # Errors
/// When the fence is stale, the head has moved, something else is being generated there, the
/// previous response or conversation does not exist, the input breaks the transcript's rules, or
/// the database fails.
pub async fn begin_response(pool: &Pool, new: &NewResponse) -> Result<Begun> {
    let mut tries = Tries::new();
    loop {
        let outcome = begin_once(pool, new).await;
        if !tries.again(&outcome).await {
            return outcome;
        }
    }
}

async fn begin_once(pool: &Pool, new: &NewResponse) -> Result<Begun> {
    let mut tx = pool.begin().await?;
    let place = match place::find(&mut tx, &new.target).await? {
        Placed::Repeat(id) => return Ok(Begun::Repeat(id)),
        Placed::At(place) => place,
    };
    let mut stored = path(&mut tx, place.branch.id, i64::MAX).await?;
    let fresh = reconcile(&stored, new.input.clone())?;
    let first_seq = place.last_seq + 1;
    let end = first_seq + i64::try_from(fresh.len()).unwrap_or(i64::MAX);
    let created_at = insert_response(&mut tx, new, &place, end).await?;
    let spot = Spot {
        conversation: place.conversation,
        branch: place.branch.id,
        first_seq,
        response: Some(new.id.uuid()),
        fence: new.target.fence(),
    };
    append(&mut tx, &spot, &fresh).await?;
    // Sequence numbers that a side branch took leave a gap; the head is an item of this branch.
    let head = if fresh.is_empty() { place.branch.head } else { end - 1 };
    if !fresh.is_empty() || spot.fence.is_some() {
        advance(&mut tx, place.conversation, place.branch.id, head, spot.fence).await?;
    }
    tx.commit().await?;
    let placed = fresh.into_iter().zip(first_seq..);
    stored.extend(placed.map(|(item, seq)| item.placed(seq, Some(new.id))));
    Ok(Begun::New(Started {
        conversation: place.conversation.into(),
        created_at,
        head,
        path: stored,
    }))
}

impl Target {
    fn fence(&self) -> Option<Fence> {
        self.fenced().map(|f| f.writer.fence)
    }

    fn fenced(&self) -> Option<&FencedRequest> {
        match self {
            Self::Fenced(request) => Some(request),
            Self::Chain { .. } | Self::Conversation(_) => None,
        }
    }

    fn previous(&self) -> Option<ResponseId> {
        match self {
            Self::Chain { previous } => *previous,
            Self::Fenced(_) | Self::Conversation(_) => None,
        }
    }
}

async fn insert_response(
    c: &mut PgConnection,
    new: &NewResponse,
    place: &Place,
    output_from: i64,
) -> Result<DateTime<Utc>> {
    let fenced = new.target.fenced();
    let base = fenced.map(|f| f.base_instructions.as_str());
    let instructions = blob(c, new.instructions.as_deref()).await?;
    let base_instructions = blob(c, base).await?;
    let input_from = place.input_from.unwrap_or(place.last_seq + 1);
    let created_at = sqlx::query_scalar!(
        "insert into gateway.responses
           (id, conversation, branch, previous, status, turn_seq, epoch, request_no, input_from,
            output_from, model, instructions, base_instructions, parameters, manifest, baseline,
            owner, created_at)
         values ($1, $2, $3, $4, 'in_progress', $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,
                 $16, clock_timestamp())
         returning created_at",
        new.id.uuid(),
        place.conversation,
        place.branch.id,
        new.target.previous().map(ResponseId::uuid),
        fenced.map(|f| f.writer.fence.turn_seq),
        fenced.map(|f| f.writer.fence.epoch),
        fenced.map(|f| f.request_no),
        input_from,
        output_from,
        new.model,
        instructions as _,
        base_instructions as _,
        new.parameters,
        fenced.map(|f| &f.manifest) as _,
        fenced.map(|f| &f.baseline) as _,
        new.owner,
    )
    .fetch_one(c)
    .await?;
    Ok(created_at)
}

/// Stores a text by its hash unless it is stored, and returns the hash.
async fn blob(c: &mut PgConnection, text: Option<&str>) -> Result<Option<Vec<u8>>> {
    let Some(text) = text else { return Ok(None) };
    let hash = Sha256::of(text).as_bytes().to_vec();
    // Most texts are there already: asking is cheaper than sending them.
    let known = sqlx::query_scalar!(
        r#"select exists (select from gateway.blobs where sha256 = $1) as "known!""#,
        hash
    )
    .fetch_one(&mut *c)
    .await?;
    if !known {
        sqlx::query!(
            "insert into gateway.blobs (sha256, content) values ($1, $2) on conflict do nothing",
            hash,
            text
        )
        .execute(c)
        .await?;
    }
    Ok(Some(hash))
}
