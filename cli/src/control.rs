//! The client of the control plane's admin service.

use crate::{Connection, Error};
use std::time::Duration;
use tonic::{
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};
use turnwright_kit::{Class, auth::CallerMetadata};
use turnwright_proto::{MAX_MESSAGE_BYTES, v1::admin_client::AdminClient};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Applying a large folder takes a while.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// The admin service, called with the operator's token.
pub type Admin = AdminClient<InterceptedService<Channel, CallerMetadata>>;

/// Connects to the control plane.
///
/// # Errors
/// When the URL or the token cannot be used, or nothing answers.
pub async fn admin(connection: &Connection) -> Result<Admin, Error> {
    let url = &connection.control_plane;
    let malformed = || Error::setup(format!("`{url}` is not the url of a control plane"));
    let channel = Endpoint::from_shared(url.clone())
        .map_err(|e| malformed().because(e))?
        .connect_timeout(CONNECT_WITHIN)
        .timeout(ANSWER_WITHIN)
        .connect()
        .await
        .map_err(|e| away(connection).because(e))?;
    let caller = CallerMetadata::new(&connection.token)
        .map_err(|e| Error::setup("the token cannot stand in a header").because(e))?;
    Ok(AdminClient::with_interceptor(channel, caller)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES))
}

fn away(connection: &Connection) -> Error {
    Error::setup(format!(
        "the control plane at {} does not answer; start it with `turnwright dev --data {}`",
        connection.control_plane,
        connection.data.display()
    ))
}

/// What a refusal of the control plane means to the caller.
pub fn refused(status: &tonic::Status) -> Error {
    let why = status.message();
    match Class::of_grpc(status.code()) {
        Class::Unauthenticated => Error::setup(
            "the control plane refuses the token; the connection file is of another start",
        ),
        Class::Unavailable | Class::Timeout => {
            Error::setup(format!("the control plane is not available: {why}"))
        }
        Class::Internal => {
            Error::failed(format!("the control plane failed: {why}; its log says more"))
        }
        Class::Invalid
        | Class::Forbidden
        | Class::NotFound
        | Class::Conflict
        | Class::Exhausted => Error::failed(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Status;

    #[test]
    fn a_refusal_is_told_from_an_absent_control_plane() {
        assert_eq!(refused(&Status::invalid_argument("x")).exit_code(), 1);
        assert_eq!(refused(&Status::not_found("x")).exit_code(), 1);
        assert_eq!(refused(&Status::aborted("x")).exit_code(), 1);
        assert_eq!(refused(&Status::unavailable("x")).exit_code(), 2);
        assert_eq!(refused(&Status::unauthenticated("x")).exit_code(), 2);
    }
}
