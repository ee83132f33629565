//! The format of a message: a kind, and fields of bytes preceded by their lengths. All numbers are little-endian.

use std::io::{Error, ErrorKind, Read, Result, Write};

use crate::request::{Request, Response};

/// The largest message; memory for it is allocated as the data arrive, not from the stated length.
pub(crate) const LONGEST: usize = 1 << 28;
/// The overhead of a field.
const FIELD: usize = size_of::<Vec<u8>>();
/// The largest first message, a token from an unauthenticated peer.
pub(crate) const LONGEST_TOKEN: usize = 1 << 10;

/// How much of a message fields of these lengths use.
pub(crate) fn buffer_size(lengths: impl Iterator<Item = usize>) -> usize {
    lengths.fold(0, |buffer_size, length| buffer_size.saturating_add(length).saturating_add(FIELD))
}

pub(crate) struct Message {
    pub kind: u8,
    pub fields: Vec<Vec<u8>>,
}

fn broken(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

impl Message {
    pub fn new(kind: u8, fields: Vec<Vec<u8>>) -> Self {
        Message { kind, fields }
    }

    pub fn write(&self, stream: &mut impl Write) -> Result<()> {
        stream.write_all(&self.encode()?)
    }

    /// The encoded message.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let size = buffer_size(self.fields.iter().map(Vec::len));
        if size > LONGEST {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("a message holds up to {LONGEST} bytes, this one {size}"),
            ));
        }
        let mut bytes = Vec::with_capacity(size + 5);
        bytes.push(self.kind);
        bytes.extend((self.fields.len() as u32).to_le_bytes());
        for field in &self.fields {
            bytes.extend((field.len() as u32).to_le_bytes());
            bytes.extend(field);
        }
        Ok(bytes)
    }

    /// The next message; `None` if the peer has closed the stream between two messages.
    pub fn read(stream: &mut impl Read, longest: usize) -> Result<Option<Message>> {
        let mut kind = [0];
        if stream.read(&mut kind)? == 0 {
            return Ok(None);
        }
        let count = number(stream)?;
        let (mut fields, mut left) = (Vec::new(), longest);
        for _ in 0..count {
            let length = number(stream)?;
            left = left.checked_sub(length + FIELD).ok_or_else(|| broken("a message that is too long"))?;
            let mut field = Vec::new();
            if stream.by_ref().take(length as u64).read_to_end(&mut field)? < length {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            fields.push(field);
        }
        Ok(Some(Message { kind: kind[0], fields }))
    }

    pub fn read_any(stream: &mut impl Read) -> Result<Option<Message>> {
        Message::read(stream, LONGEST)
    }
}

fn number(stream: &mut impl Read) -> Result<usize> {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes) as usize)
}

fn integer(bytes: &[u8]) -> Result<i64> {
    Ok(i64::from_le_bytes(bytes.try_into().map_err(|_| broken("a number that is not 8 bytes"))?))
}

impl From<Request> for Message {
    fn from(request: Request) -> Message {
        match request {
            Request::Set(key, value) => Message::new(1, vec![key, value]),
            Request::Get(keys) => Message::new(2, keys),
            Request::Add(key, amount) => Message::new(3, vec![key, amount.to_le_bytes().to_vec()]),
            Request::CompareSet(key, expected, desired) => Message::new(4, vec![key, expected, desired]),
            Request::Wait(keys) => Message::new(5, keys),
            Request::Check(keys) => Message::new(6, keys),
            Request::Delete(key) => Message::new(7, vec![key]),
            Request::Append(key, tail) => Message::new(8, vec![key, tail]),
            Request::Keys => Message::new(9, Vec::new()),
        }
    }
}

impl TryFrom<Message> for Request {
    type Error = Error;

    fn try_from(message: Message) -> Result<Request> {
        let Message { kind, fields } = message;
        match kind {
            2 => return Ok(Request::Get(fields)),
            5 => return Ok(Request::Wait(fields)),
            6 => return Ok(Request::Check(fields)),
            _ => {}
        }
        let mut fields = fields.into_iter();
        let mut next = || fields.next().ok_or_else(|| broken("a message with too few fields"));
        let request = match kind {
            1 => Request::Set(next()?, next()?),
            3 => Request::Add(next()?, integer(&next()?)?),
            4 => Request::CompareSet(next()?, next()?, next()?),
            7 => Request::Delete(next()?),
            8 => Request::Append(next()?, next()?),
            9 => Request::Keys,
            _ => return Err(broken("an unknown request")),
        };
        if fields.next().is_some() {
            return Err(broken("a message with too many fields"));
        }
        Ok(request)
    }
}

impl From<Response> for Message {
    fn from(answer: Response) -> Message {
        match answer {
            Response::Values(values) => Message::new(1, values),
            Response::Bool(truth) => Message::new(2, vec![vec![u8::from(truth)]]),
            Response::Number(number) => Message::new(3, vec![number.to_le_bytes().to_vec()]),
            Response::Refused(why) => Message::new(4, vec![why.into_bytes()]),
        }
    }
}

impl TryFrom<Message> for Response {
    type Error = Error;

    fn try_from(message: Message) -> Result<Response> {
        let Message { kind, fields } = message;
        match (kind, fields.as_slice()) {
            (1, _) => Ok(Response::Values(fields)),
            (2, [truth]) => Ok(Response::Bool(truth.as_slice() == [1])),
            (3, [number]) => Ok(Response::Number(integer(number)?)),
            (4, [why]) => Ok(Response::Refused(String::from_utf8_lossy(why).into_owned())),
            _ => Err(broken("an unknown answer")),
        }
    }
}
