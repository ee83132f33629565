//! The client. A request can be interrupted at any time; the connection is then closed, because an answer may be half
//! read.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use rushlight_core::fork;

use crate::request::{Request, Response};
use crate::wire::Message;

/// How often a long wait calls the pause function.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Called while an operation takes long; an error ends the wait.
pub type Pause<'a> = &'a mut dyn FnMut() -> Result<()>;

pub struct Client {
    stream: Mutex<Option<TcpStream>>,
    /// The thread whose request is under way.
    requester: Mutex<Option<ThreadId>>,
    generation: u64,
}

/// Reads and writes until a deadline, with pauses.
struct InterruptibleStream<'a, 'b> {
    stream: &'a TcpStream,
    deadline: Instant,
    pause: &'a mut Pause<'b>,
}

impl InterruptibleStream<'_, '_> {
    fn try_again(&mut self, mut act: impl FnMut(&TcpStream) -> Result<usize>) -> Result<usize> {
        loop {
            match act(self.stream) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
                {
                    (self.pause)()?;
                    if Instant::now() >= self.deadline {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                other => return other,
            }
        }
    }
}

impl Read for InterruptibleStream<'_, '_> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        self.try_again(|mut stream| stream.read(bytes))
    }
}

impl Write for InterruptibleStream<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.try_again(|mut stream| stream.write(bytes))
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Client {
    /// Connects, and retries until the server answers or the timeout expires.
    pub fn connect(host: &str, port: u16, token: &[u8], timeout: Duration, mut pause: Pause<'_>) -> Result<Client> {
        let deadline = Instant::now() + timeout;
        loop {
            let greeted = attempt(host, port, deadline).and_then(|stream| greet(stream, token, deadline, &mut pause));
            match greeted {
                Ok(stream) => {
                    return Ok(Client {
                        stream: Mutex::new(Some(stream)),
                        requester: Mutex::default(),
                        generation: fork::generation(),
                    });
                }
                // The token is wrong, or the wait was interrupted.
                Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Other) => {
                    return Err(error);
                }
                Err(error) => {
                    pause()?;
                    if Instant::now() + POLL_INTERVAL >= deadline {
                        return Err(error);
                    }
                    thread::sleep(POLL_INTERVAL);
                }
            }
        }
    }

    fn requester(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.requester.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn send(&self, request: Request, timeout: Duration, mut pause: Pause<'_>) -> Result<Response> {
        if self.generation != fork::generation() {
            return Err(Error::new(
                ErrorKind::NotConnected,
                "the connection belongs to the process from which this one was forked",
            ));
        }
        let request = Message::from(request).encode()?;
        // The pause function may run a signal handler of the program, which must not wait for the request that it
        // interrupts.
        if *self.requester() == Some(thread::current().id()) {
            return Err(Error::new(
                ErrorKind::ResourceBusy,
                "the store cannot be used in a signal handler that interrupts another request to it",
            ));
        }
        let mut slot = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let _in_progress = RequestInProgress::begin(self);
        // Taken out, so that an error on the way does not leave a connection that is out of step.
        let stream =
            slot.take().ok_or_else(|| Error::new(ErrorKind::NotConnected, "the connection was lost before"))?;
        let mut patient = InterruptibleStream {
            stream: &stream,
            deadline: Instant::now() + timeout + POLL_INTERVAL,
            pause: &mut pause,
        };
        patient.write_all(&request)?;
        let answer = Message::read_any(&mut patient)?;
        let answer =
            answer.ok_or_else(|| Error::new(ErrorKind::ConnectionReset, "the store has closed the connection"))?;
        let answer = Response::try_from(answer)?;
        *slot = Some(stream);
        Ok(answer)
    }
}

/// Marks this thread as the one whose request is under way.
struct RequestInProgress<'a>(&'a Client);

impl RequestInProgress<'_> {
    fn begin(client: &Client) -> RequestInProgress<'_> {
        *client.requester() = Some(thread::current().id());
        RequestInProgress(client)
    }
}

impl Drop for RequestInProgress<'_> {
    fn drop(&mut self) {
        *self.0.requester() = None;
    }
}

/// Shows the token. A server that is just closing breaks the connection off.
fn greet(stream: TcpStream, token: &[u8], deadline: Instant, pause: &mut Pause<'_>) -> Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(POLL_INTERVAL))?;
    stream.set_write_timeout(Some(POLL_INTERVAL))?;
    let mut patient = InterruptibleStream { stream: &stream, deadline, pause };
    Message::new(0, vec![token.to_vec()]).write(&mut patient)?;
    let Some(answer) = Message::read_any(&mut patient)? else { return Err(ErrorKind::ConnectionReset.into()) };
    if Response::try_from(answer)? == Response::Bool(true) {
        return Ok(stream);
    }
    Err(Error::new(ErrorKind::PermissionDenied, "the store did not accept the token"))
}

/// Whether a connection is one of a socket with itself: where nobody listens, a socket whose own port is the one that it
/// seeks gets that.
pub(crate) fn is_itself(stream: &TcpStream) -> Result<bool> {
    Ok(stream.local_addr()? == stream.peer_addr()?)
}

fn attempt(host: &str, port: u16, deadline: Instant) -> Result<TcpStream> {
    let mut last = Error::new(ErrorKind::NotFound, format!("{host} has no address"));
    for address in (host, port).to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now()).clamp(POLL_INTERVAL, Duration::from_secs(2));
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) if is_itself(&stream)? => last = ErrorKind::ConnectionRefused.into(),
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
