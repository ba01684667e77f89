//! Asks a service whether it is ready to work.

use crate::{
    Error,
    dev::{
        folder::tail,
        process::{Plan, Process},
    },
};
use std::{process::ExitStatus, time::Duration};
use tokio::time::{sleep, timeout};
use tonic::{service::interceptor::InterceptedService, transport::Endpoint};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use turnwright_kit::auth::CallerMetadata;

/// How long a service may take to get ready.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// How long one answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// Between two questions.
const PAUSE: Duration = Duration::from_millis(20);

/// How a service is asked.
#[derive(Clone)]
pub enum Probe {
    /// The gRPC health service at a base URL.
    Grpc {
        /// Where.
        url: String,
        /// Our credential.
        caller: CallerMetadata,
    },
    /// A path that answers 200 when it is ready.
    Http {
        /// Where.
        url: String,
        /// Shared by all probes.
        client: reqwest::Client,
    },
}

/// Why a service is not ready.
#[derive(Debug)]
pub enum NotReady {
    /// It ended.
    Ended(ExitStatus),
    /// Something that does not pass.
    Error(Error),
}

impl Probe {
    /// Whether it is ready now.
    pub async fn ready(&self) -> bool {
        timeout(ANSWER_LIMIT, self.ask()).await.is_ok_and(|answer| answer.unwrap_or(false))
    }

    /// `None`: no answer.
    async fn ask(&self) -> Option<bool> {
        match self {
            Self::Grpc { url, caller } => {
                let channel = Endpoint::from_shared(url.clone()).ok()?.connect().await.ok()?;
                let channel = InterceptedService::new(channel, caller.clone());
                let whole = HealthCheckRequest { service: String::new() };
                let answer = HealthClient::new(channel).check(whole).await.ok()?.into_inner();
                Some(answer.status == i32::from(ServingStatus::Serving))
            }
            Self::Http { url, client } => {
                Some(client.get(url).send().await.ok()?.status().is_success())
            }
        }
    }
}

/// Waits until a service is ready, but not past its end.
///
/// # Errors
/// [`NotReady::Ended`] when it ends first; an error when it takes too long.
pub async fn until_ready(
    process: &mut Process,
    plan: &Plan,
    probe: &Probe,
) -> Result<(), NotReady> {
    let ready = async {
        while !probe.ready().await {
            sleep(PAUSE).await;
        }
    };
    let end = tokio::select! {
        // First: another process that took the port may answer in its place.
        biased;
        end = process.exited() => end,
        () = ready => return Ok(()),
        () = sleep(READY_LIMIT) => return Err(NotReady::Error(late(plan))),
    };
    Err(match end {
        Ok(status) => NotReady::Ended(status),
        Err(e) => {
            NotReady::Error(Error::setup(format!("cannot wait for {}", plan.name)).because(e))
        }
    })
}

fn late(plan: &Plan) -> Error {
    let (name, log) = (plan.name, plan.log.display());
    let (seconds, tail) = (READY_LIMIT.as_secs(), tail(&plan.log));
    Error::setup(format!("{name} was not ready within {seconds} s; the end of {log}:\n{tail}"))
}

/// What to say of a service that ended before it was ready.
pub fn ended(plan: &Plan, status: ExitStatus) -> Error {
    let (name, log, tail) = (plan.name, plan.log.display(), tail(&plan.log));
    Error::setup(format!("{name} ended before it was ready ({status}); the end of {log}:\n{tail}"))
}
