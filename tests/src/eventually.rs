//! Waiting for a state.

use std::time::Duration;

/// Probes until the state holds, and says what it last saw when it never does.
///
/// # Panics
/// When the state does not hold within `within`.
pub async fn eventually<T, F>(what: &str, within: Duration, mut probe: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    let deadline = tokio::time::Instant::now() + within;
    loop {
        match probe().await {
            Ok(v) => return v,
            Err(last) if tokio::time::Instant::now() > deadline => {
                panic!("{what}: not within {within:?}; last seen: {last}")
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}
