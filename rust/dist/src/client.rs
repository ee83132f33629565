//! The end that asks. It can be interrupted at any time; the connection is then given up, since an answer may be half read.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rushlight_core::fork;

use crate::table::{Answer, Question};
use crate::wire::Message;

/// How often a long wait looks around.
const NAP: Duration = Duration::from_millis(100);

/// Called while something takes long; an error ends the wait.
pub type Pause<'a> = &'a mut dyn FnMut() -> Result<()>;

pub struct Client {
    stream: Mutex<Option<TcpStream>>,
    generation: u64,
}

/// Reads and writes until a deadline, with pauses.
struct Patient<'a, 'b> {
    stream: &'a TcpStream,
    deadline: Instant,
    pause: &'a mut Pause<'b>,
}

impl Patient<'_, '_> {
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

impl Read for Patient<'_, '_> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        self.try_again(|mut stream| stream.read(bytes))
    }
}

impl Write for Patient<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.try_again(|mut stream| stream.write(bytes))
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Client {
    /// Connects, and tries again until the server is there or the time is over.
    pub fn connect(host: &str, port: u16, token: &[u8], timeout: Duration, mut pause: Pause<'_>) -> Result<Client> {
        let deadline = Instant::now() + timeout;
        loop {
            match attempt(host, port, deadline) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(NAP))?;
                    stream.set_write_timeout(Some(NAP))?;
                    let mut patient = Patient { stream: &stream, deadline, pause: &mut pause };
                    Message::new(0, vec![token.to_vec()]).write(&mut patient)?;
                    let answer = Message::read_any(&mut patient)?;
                    let welcome = answer.map(Answer::try_from).transpose()? == Some(Answer::Truth(true));
                    if !welcome {
                        return Err(Error::new(ErrorKind::PermissionDenied, "the store did not accept the token"));
                    }
                    return Ok(Client { stream: Mutex::new(Some(stream)), generation: fork::generation() });
                }
                Err(error) => {
                    pause()?;
                    if Instant::now() + NAP >= deadline {
                        return Err(error);
                    }
                    thread::sleep(NAP);
                }
            }
        }
    }

    pub fn ask(&self, question: Question, timeout: Duration, mut pause: Pause<'_>) -> Result<Answer> {
        if self.generation != fork::generation() {
            return Err(Error::new(
                ErrorKind::NotConnected,
                "the connection belongs to the process from which this one was forked",
            ));
        }
        let question = Message::from(question).encode()?;
        let mut slot = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken out, so that an error on the way leaves no connection that is out of step.
        let stream =
            slot.take().ok_or_else(|| Error::new(ErrorKind::NotConnected, "the connection was lost before"))?;
        let mut patient = Patient { stream: &stream, deadline: Instant::now() + timeout + NAP, pause: &mut pause };
        patient.write_all(&question)?;
        let answer = Message::read_any(&mut patient)?;
        let answer =
            answer.ok_or_else(|| Error::new(ErrorKind::ConnectionReset, "the store has closed the connection"))?;
        let answer = Answer::try_from(answer)?;
        *slot = Some(stream);
        Ok(answer)
    }
}

fn attempt(host: &str, port: u16, deadline: Instant) -> Result<TcpStream> {
    let mut last = Error::new(ErrorKind::NotFound, format!("{host} has no address"));
    for address in (host, port).to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now()).clamp(NAP, Duration::from_secs(2));
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
