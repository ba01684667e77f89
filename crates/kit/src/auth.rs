//! Bearer tokens on every listener: kept as digests, compared in constant time, required by a
//! layer that refuses in the caller's own protocol.

use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use sha2::{Digest as _, Sha256};
use std::{
    sync::Arc,
    task::{Context, Poll},
};
use subtle::ConstantTimeEq as _;
use tower::{Layer, Service};

/// Makes a token: 256 random bits, in hexadecimal.
#[must_use]
pub fn new_token() -> String {
    hex::encode(rand::random::<[u8; 32]>())
}

/// The bearer token of a request, if it carries one.
#[must_use]
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// What a token entitles to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A service of the installation.
    Service,
    /// An operator.
    Operator,
}

/// The tokens a listener accepts, as digests.
#[derive(Clone, Debug)]
pub struct Tokens(Arc<[([u8; 32], Role)]>);

impl Tokens {
    /// Accepts exactly these tokens.
    #[must_use]
    pub fn new<'a>(tokens: impl IntoIterator<Item = (&'a str, Role)>) -> Self {
        Self(tokens.into_iter().map(|(t, r)| (Sha256::digest(t).into(), r)).collect())
    }

    /// The role of a token, if it is one of them. Looks at every entry, whatever matches.
    #[must_use]
    pub fn role(&self, token: &str) -> Option<Role> {
        let digest: [u8; 32] = Sha256::digest(token).into();
        let mut found = None;
        for (known, role) in self.0.iter() {
            if bool::from(known.ct_eq(&digest)) {
                found = Some(*role);
            }
        }
        found
    }
}

/// Requires one of [`Tokens`]; puts the [`Role`] into the request's extensions.
#[derive(Clone, Debug)]
pub struct RequireToken {
    /// What is accepted.
    pub tokens: Tokens,
    /// Paths that need no token, such as health.
    pub open_paths: &'static [&'static str],
}

impl<S> Layer<S> for RequireToken {
    type Service = RequireTokenService<S>;
    fn layer(&self, inner: S) -> Self::Service {
        RequireTokenService { rule: self.clone(), inner }
    }
}

/// The service behind [`RequireToken`].
#[derive(Clone, Debug)]
pub struct RequireTokenService<S> {
    rule: RequireToken,
    inner: S,
}

impl<S, B, R> Service<Request<B>> for RequireTokenService<S>
where
    B: Send + 'static,
    R: Default + Send + 'static,
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<R>, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut req: Request<B>) -> Self::Future {
        let open = self.rule.open_paths.contains(&req.uri().path());
        let role = bearer(req.headers()).and_then(|t| self.rule.tokens.role(t));
        if !open && role.is_none() {
            let refused = refuse(&req);
            return Box::pin(async move { Ok(refused) });
        }
        if let Some(role) = role {
            req.extensions_mut().insert(role);
        }
        // The clone goes back; the instance that was polled ready is the one called.
        let next = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, next);
        Box::pin(async move { ready.call(req).await })
    }
}

/// gRPC refusals are HTTP 200 with a `grpc-status`; HTTP ones are plain 401.
fn refuse<B, R: Default>(req: &Request<B>) -> Response<R> {
    let grpc = req
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|v| v.as_bytes().starts_with(b"application/grpc"));
    let mut response = Response::new(R::default());
    let headers = response.headers_mut();
    if grpc {
        headers.insert("grpc-status", HeaderValue::from_static("16"));
        headers.insert(
            "grpc-message",
            HeaderValue::from_static("send a valid token in `authorization: bearer`"),
        );
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    } else {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        *response.status_mut() = StatusCode::UNAUTHORIZED;
    }
    response
}

/// Adds the caller's token and trace context to every gRPC call.
#[derive(Clone, Debug)]
pub struct CallerMetadata {
    authorization: tonic::metadata::MetadataValue<tonic::metadata::Ascii>,
}

impl CallerMetadata {
    /// For a client that authenticates with `token`.
    ///
    /// # Errors
    /// When the token cannot stand in a header.
    pub fn new(token: &str) -> Result<Self, tonic::metadata::errors::InvalidMetadataValue> {
        let mut authorization: tonic::metadata::MetadataValue<_> =
            format!("Bearer {token}").parse()?;
        authorization.set_sensitive(true);
        Ok(Self { authorization })
    }
}

impl tonic::service::Interceptor for CallerMetadata {
    fn call(&mut self, mut req: tonic::Request<()>) -> Result<tonic::Request<()>, tonic::Status> {
        req.metadata_mut().insert("authorization", self.authorization.clone());
        if let Some(Ok(value)) = crate::trace::current().map(|parent| parent.parse()) {
            req.metadata_mut().insert(crate::trace::HEADER, value);
        }
        Ok(req)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_known_token_has_a_role() {
        let tokens = Tokens::new([("a", Role::Service), ("b", Role::Operator)]);
        assert_eq!(tokens.role("b"), Some(Role::Operator));
        assert_eq!(tokens.role("c"), None);
        assert_eq!(Tokens::new([]).role(""), None);
    }

    #[tokio::test]
    async fn a_refusal_speaks_the_callers_protocol() {
        let layer =
            RequireToken { tokens: Tokens::new([("t", Role::Service)]), open_paths: &["/healthz"] };
        let service = layer.layer(tower::service_fn(|_: Request<()>| async {
            Ok::<_, std::convert::Infallible>(Response::new(String::from("in")))
        }));
        let call = |req: Request<()>| tower::ServiceExt::oneshot(service.clone(), req);
        let bare = call(Request::get("/x").body(()).unwrap()).await.unwrap();
        assert_eq!(bare.status(), StatusCode::UNAUTHORIZED);
        let grpc = Request::get("/x").header("content-type", "application/grpc").body(()).unwrap();
        assert_eq!(call(grpc).await.unwrap().headers()["grpc-status"], "16");
        let open = call(Request::get("/healthz").body(()).unwrap()).await.unwrap();
        assert_eq!(open.body(), "in");
        let known = Request::get("/x").header("authorization", "Bearer t").body(()).unwrap();
        assert_eq!(call(known).await.unwrap().body(), "in");
    }
}
