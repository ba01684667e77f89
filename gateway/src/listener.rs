//! Connections: so many at a time, without Nagle's delay, and none that is silent for ever.

use axum::serve::Listener;
use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep},
};

/// How long a new connection may take to say its first word.
const FIRST_WORD: Duration = Duration::from_secs(30);
/// How long a connection may be silent in both directions. A client that waits for an answer as a
/// whole is silent while the model thinks.
const SILENCE: Duration = Duration::from_secs(600);

/// A listener with a limit.
pub(crate) struct Bounded {
    listener: TcpListener,
    seats: Arc<Semaphore>,
}

impl Bounded {
    /// At most `connections` at a time; further ones wait in the kernel's queue.
    pub(crate) fn new(listener: TcpListener, connections: usize) -> Self {
        Self { listener, seats: Arc::new(Semaphore::new(connections)) }
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let seat = match self.seats.clone().acquire_owned().await {
            Ok(seat) => seat,
            // The semaphore is never closed.
            Err(_) => std::future::pending().await,
        };
        let (stream, address) = Listener::accept(&mut self.listener).await;
        if let Err(e) = stream.set_nodelay(true) {
            tracing::debug!(error = %e, "a connection keeps Nagle's delay");
        }
        (Connection::new(stream, seat), address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection with its seat.
pub(crate) struct Connection {
    stream: TcpStream,
    last: Instant,
    patience: Duration,
    alarm: Pin<Box<Sleep>>,
    _seat: OwnedSemaphorePermit,
}

impl Connection {
    fn new(stream: TcpStream, seat: OwnedSemaphorePermit) -> Self {
        let alarm = Box::pin(tokio::time::sleep(FIRST_WORD));
        Self { stream, last: Instant::now(), patience: FIRST_WORD, alarm, _seat: seat }
    }

    /// Notes progress, or fails a connection that has been silent for too long. The alarm is set
    /// anew only when it rings: progress costs a look at the clock.
    fn watch<T>(&mut self, cx: &mut Context<'_>, end: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if end.is_ready() {
            self.last = Instant::now();
            self.patience = SILENCE;
            return end;
        }
        while self.alarm.as_mut().poll(cx).is_ready() {
            let due = self.last + self.patience;
            if due <= Instant::now() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.alarm.as_mut().reset(due);
        }
        Poll::Pending
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let end = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.watch(cx, end)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let end = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch(cx, end)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let end = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watch(cx, end)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    async fn pair(seats: usize) -> (Bounded, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (Bounded::new(listener, seats), address)
    }

    #[tokio::test]
    async fn bytes_pass_and_a_silent_connection_ends() {
        let (mut listener, address) = pair(1).await;
        let mut client = TcpStream::connect(address).await.unwrap();
        let (mut server, _) = listener.accept().await;
        client.write_all(b"hi").await.unwrap();
        let mut word = [0; 2];
        server.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"hi");
        assert_eq!(server.patience, SILENCE);
        tokio::time::pause();
        let end = server.read(&mut word).await.unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_seat_is_free_again_when_its_connection_is_dropped() {
        let (mut listener, address) = pair(1).await;
        let _first = TcpStream::connect(address).await.unwrap();
        let _second = TcpStream::connect(address).await.unwrap();
        let (server, _) = listener.accept().await;
        assert_eq!(listener.seats.available_permits(), 0);
        drop(server);
        let (_server, _) = listener.accept().await;
        assert_eq!(listener.seats.available_permits(), 0);
    }
}
