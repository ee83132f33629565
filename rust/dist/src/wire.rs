//! A message: a kind, and fields of bytes with their lengths before them, all numbers with the lowest byte first.

use std::io::{Error, ErrorKind, Read, Result, Write};

use crate::table::{Answer, Question};

/// What a message may hold; the memory for it grows with what arrives, not with what is promised.
pub(crate) const LONGEST: usize = 1 << 28;
/// What a field takes beside its bytes.
const FIELD: usize = size_of::<Vec<u8>>();
/// The first message is a token, from a stranger.
pub(crate) const LONGEST_TOKEN: usize = 1 << 10;

/// How much of a message fields of these lengths take.
pub(crate) fn room(lengths: impl Iterator<Item = usize>) -> usize {
    lengths.fold(0, |room, length| room.saturating_add(length).saturating_add(FIELD))
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

    /// As it travels.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let size = room(self.fields.iter().map(Vec::len));
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

    /// The next message; nothing where the peer has closed the stream between two.
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

impl From<Question> for Message {
    fn from(question: Question) -> Message {
        match question {
            Question::Set(key, value) => Message::new(1, vec![key, value]),
            Question::Get(keys) => Message::new(2, keys),
            Question::Add(key, amount) => Message::new(3, vec![key, amount.to_le_bytes().to_vec()]),
            Question::CompareSet(key, expected, desired) => Message::new(4, vec![key, expected, desired]),
            Question::Wait(keys) => Message::new(5, keys),
            Question::Check(keys) => Message::new(6, keys),
            Question::Delete(key) => Message::new(7, vec![key]),
            Question::Append(key, tail) => Message::new(8, vec![key, tail]),
            Question::Keys => Message::new(9, Vec::new()),
        }
    }
}

impl TryFrom<Message> for Question {
    type Error = Error;

    fn try_from(message: Message) -> Result<Question> {
        let Message { kind, fields } = message;
        match kind {
            2 => return Ok(Question::Get(fields)),
            5 => return Ok(Question::Wait(fields)),
            6 => return Ok(Question::Check(fields)),
            _ => {}
        }
        let mut fields = fields.into_iter();
        let mut next = || fields.next().ok_or_else(|| broken("a message with too few fields"));
        let question = match kind {
            1 => Question::Set(next()?, next()?),
            3 => Question::Add(next()?, integer(&next()?)?),
            4 => Question::CompareSet(next()?, next()?, next()?),
            7 => Question::Delete(next()?),
            8 => Question::Append(next()?, next()?),
            9 => Question::Keys,
            _ => return Err(broken("an unknown question")),
        };
        if fields.next().is_some() {
            return Err(broken("a message with too many fields"));
        }
        Ok(question)
    }
}

impl From<Answer> for Message {
    fn from(answer: Answer) -> Message {
        match answer {
            Answer::Values(values) => Message::new(1, values),
            Answer::Truth(truth) => Message::new(2, vec![vec![u8::from(truth)]]),
            Answer::Number(number) => Message::new(3, vec![number.to_le_bytes().to_vec()]),
            Answer::Refused(why) => Message::new(4, vec![why.into_bytes()]),
        }
    }
}

impl TryFrom<Message> for Answer {
    type Error = Error;

    fn try_from(message: Message) -> Result<Answer> {
        let Message { kind, fields } = message;
        match (kind, fields.as_slice()) {
            (1, _) => Ok(Answer::Values(fields)),
            (2, [truth]) => Ok(Answer::Truth(truth.as_slice() == [1])),
            (3, [number]) => Ok(Answer::Number(integer(number)?)),
            (4, [why]) => Ok(Answer::Refused(String::from_utf8_lossy(why).into_owned())),
            _ => Err(broken("an unknown answer")),
        }
    }
}
