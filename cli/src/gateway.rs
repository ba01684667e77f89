//! The client of the gateway's operator interface.

use crate::{Connection, Error};
use reqwest::StatusCode;
use serde::Deserialize;
use std::time::Duration;
use turnwright_types::{
    GatewayConversationId,
    gateway::{TurnPrompt, turn_prompt},
};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The part of an OpenAI error object that people read.
#[derive(Deserialize)]
struct Refusal {
    error: Message,
}

#[derive(Deserialize)]
struct Message {
    message: String,
}

/// Everything that was sent for a turn; without requests when nothing was sent yet.
///
/// # Errors
/// When the gateway does not answer or refuses.
pub async fn prompt(
    connection: &Connection,
    conversation: &str,
    turn_seq: i64,
) -> Result<TurnPrompt, Error> {
    let conversation = GatewayConversationId::parse(conversation)
        .map_err(|e| Error::failed("the control plane named no gateway conversation").because(e))?;
    let url = format!(
        "{}{}",
        connection.gateway.trim_end_matches('/'),
        turn_prompt(conversation, turn_seq)
    );
    let client = reqwest::Client::builder()
        .no_proxy()
        .connect_timeout(CONNECT_WITHIN)
        .timeout(ANSWER_WITHIN)
        .build()
        .map_err(|e| Error::setup("cannot make an http client").because(e))?;
    let away = |e: reqwest::Error| {
        let at = &connection.gateway;
        Error::setup(format!("the gateway at {at} does not answer; is it running?")).because(e)
    };
    let response = client.get(url).bearer_auth(&connection.token).send().await.map_err(away)?;
    let status = response.status();
    let body = response.bytes().await.map_err(away)?;
    match status {
        StatusCode::NOT_FOUND => return Ok(TurnPrompt { agent: None, requests: Vec::new() }),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            return Err(Error::setup("the gateway refuses the token"));
        }
        _ if !status.is_success() => {
            let why = serde_json::from_slice::<Refusal>(&body)
                .map_or_else(|_| status.to_string(), |refusal| refusal.error.message);
            return Err(Error::failed(format!("the gateway refuses: {why}")));
        }
        _ => {}
    }
    serde_json::from_slice(&body)
        .map_err(|e| Error::failed("the gateway's answer is not readable").because(e))
}
