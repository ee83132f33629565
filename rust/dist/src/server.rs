//! The server: it owns the table, with one thread that accepts connections and one for each peer.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Result};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rushlight_core::fork;

use crate::request::{Request, Response};
use crate::table::Table;
use crate::wire::{LONGEST_TOKEN, Message};

const PEERS: usize = 4096;
/// A connection that has not authenticated by then is closed, even if it keeps sending.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const STACK: usize = 256 << 10;
/// The longest message that is accepted before authentication.
const STRANGE: usize = LONGEST_TOKEN + 64;

struct Shared {
    table: Table,
    token: Vec<u8>,
    closing: AtomicBool,
    peers: Mutex<HashMap<u64, TcpStream>>,
}

/// Serves until it is dropped.
pub struct Server {
    shared: Arc<Shared>,
    /// The listening socket, used to end the wait of the accepting thread.
    listening: TcpListener,
    accepting: Option<thread::JoinHandle<()>>,
    port: u16,
    generation: u64,
}

impl Server {
    /// Listens at an address; port 0 selects a free one.
    pub fn new(host: &str, port: u16, token: Vec<u8>) -> Result<Server> {
        Server::serve(TcpListener::bind((host, port))?, token)
    }

    /// Listens on a socket that is bound already, and closes it in the end.
    pub fn on_socket(socket: OwnedFd, token: Vec<u8>) -> Result<Server> {
        let listener = TcpListener::from(socket);
        // SAFETY: the call reads no memory, and the descriptor is open as long as `listener` lives.
        if unsafe { libc::listen(listener.as_raw_fd(), libc::SOMAXCONN) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        listener.set_nonblocking(false)?;
        Server::serve(listener, token)
    }

    fn serve(listener: TcpListener, token: Vec<u8>) -> Result<Server> {
        if token.len() > LONGEST_TOKEN {
            return Err(std::io::Error::new(
                ErrorKind::InvalidInput,
                format!("a token has up to {LONGEST_TOKEN} bytes"),
            ));
        }
        let port = listener.local_addr()?.port();
        let listening = listener.try_clone()?;
        let shared = Arc::new(Shared {
            table: Table::default(),
            token,
            closing: AtomicBool::new(false),
            peers: Mutex::new(HashMap::new()),
        });
        let own = shared.clone();
        let accepting = thread::Builder::new().name("rushlight-store".into()).stack_size(STACK);
        let accepting = Some(accepting.spawn(move || own.accept(&listener))?);
        Ok(Server { shared, listening, accepting, port, generation: fork::generation() })
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A forked child has the sockets too, but must not end the parent's connections.
        if self.generation != fork::generation() {
            return;
        }
        self.shared.closing.store(true, Ordering::Release);
        // The accepting thread wakes up and sees the flag. The standard library shuts down streams only; for the system
        // both are sockets.
        if let Ok(listening) = self.listening.try_clone()
            && TcpStream::from(OwnedFd::from(listening)).shutdown(Shutdown::Both).is_ok()
            && let Some(accepting) = self.accepting.take()
        {
            // It closes its socket, so that the port is free as soon as this one is closed too.
            let _ = accepting.join();
        }
        // No peer is added any more.
        for (_, stream) in self.shared.peers.lock().unwrap_or_else(PoisonError::into_inner).drain() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Reads until a deadline.
struct DeadlineStream<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl Read for DeadlineStream<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(bytes)
    }
}

impl Shared {
    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for number in 0.. {
            let stream = listener.accept();
            if self.closing.load(Ordering::Acquire) {
                return;
            }
            let Ok((stream, _)) = stream else {
                // For example, out of descriptors: other connections may close theirs.
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            let Ok(own) = stream.try_clone() else { continue };
            {
                let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
                if peers.len() >= PEERS {
                    continue;
                }
                peers.insert(number, own);
            }
            let shared = self.clone();
            let serve = move || {
                let _ = shared.serve(stream);
                shared.peers.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
            };
            if thread::Builder::new().name("rushlight-peer".into()).stack_size(STACK).spawn(serve).is_err() {
                self.peers.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
            }
        }
    }

    fn serve(&self, mut stream: TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        let hello = Message::read(
            &mut DeadlineStream { stream: &stream, deadline: Instant::now() + HANDSHAKE_TIMEOUT },
            STRANGE,
        )?;
        let known =
            hello.is_some_and(|hello| hello.kind == 0 && hello.fields.first().is_some_and(|token| self.knows(token)));
        Message::from(Response::Bool(known)).write(&mut stream)?;
        if !known {
            return Ok(());
        }
        stream.set_read_timeout(None)?;
        while let Some(message) = Message::read_any(&mut stream)? {
            let answer = self.table.handle(Request::try_from(message)?);
            Message::from(answer).write(&mut stream)?;
        }
        Ok(())
    }

    /// Compares in constant time, so that the duration does not reveal how much of the token is right.
    fn knows(&self, token: &[u8]) -> bool {
        token.len() == self.token.len() && token.iter().zip(&self.token).fold(0, |found, (a, b)| found | (a ^ b)) == 0
    }
}
