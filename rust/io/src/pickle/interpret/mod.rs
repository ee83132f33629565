//! The stack machine: opcodes in, steps out.

mod calls;

use std::collections::HashMap;

use super::builtins::Builtin;
use super::builtins::full_name;
use super::opcode::{self as op, Reader, bad};
use super::{Id, Limits, Policy, Step, Use, integer};
use crate::source::copied;
use crate::{Error, Result};

/// The result of interpreting a pickle.
#[derive(Debug)]
pub struct Outcome {
    pub steps: Vec<Step>,
    /// The value that was on the stack at the end.
    pub root: Id,
    /// Bytes read; another pickle may follow.
    pub length: usize,
    /// The protocol version that the pickle states.
    pub protocol: u8,
}

/// Interprets the pickle at the start of `bytes`.
pub fn interpret(bytes: &[u8], policy: &Policy, limits: Limits) -> Result<Outcome> {
    let work = limits.work.saturating_add(limits.work_per_byte.saturating_mul(bytes.len() as u64));
    let mut machine = Machine {
        reader: Reader::new(bytes),
        policy,
        limits,
        work,
        steps: Vec::new(),
        values: Vec::new(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        protocol: 0,
        at: 0,
    };
    let root = machine.run()?;
    let (length, protocol) = (machine.reader.position, machine.protocol);
    Ok(Outcome { steps: machine.steps, root, length, protocol })
}

/// What the interpreter tracks about a value.
struct Value {
    /// Index of the step that made it.
    step: u32,
    /// The nesting depth of containers.
    depth: u32,
    /// The number of parts, each counted as often as it is reached.
    weight: u64,
    kind: Kind,
}

enum Kind {
    /// Hashable and without parts, or a tuple of such values.
    Plain,
    Tuple,
    /// A list with its items so far, because builtins may be called on it.
    List(Vec<Id>),
    Dict,
    Set,
    Global(Use, Option<Builtin>),
    /// The result of a call, to which items and a state may be added.
    Object,
    /// A value without items or state.
    Opaque,
    /// An integer whose hash an attacker could choose.
    Huge,
}

struct Machine<'a> {
    reader: Reader<'a>,
    policy: &'a Policy,
    limits: Limits,
    work: u64,
    steps: Vec<Step>,
    values: Vec<Value>,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
    protocol: u8,
    /// The offset of the present opcode, for messages.
    at: usize,
}

impl Machine<'_> {
    fn run(&mut self) -> Result<Id> {
        loop {
            self.at = self.reader.position;
            match self.reader.byte()? {
                op::STOP => return self.pop(),
                opcode => self.perform(opcode)?,
            }
        }
    }

    /// Executes one opcode.
    fn perform(&mut self, opcode: u8) -> Result<()> {
        match opcode {
            op::PROTO => self.protocol = self.reader.byte()?,
            op::FRAME => drop(self.reader.take(8)?),

            op::NONE => self.plain(Step::None)?,
            op::NEWTRUE => self.plain(Step::Bool(true))?,
            op::NEWFALSE => self.plain(Step::Bool(false))?,
            op::BININT => self.int(4)?,
            op::BININT1 => self.int(1)?,
            op::BININT2 => self.int(2)?,
            op::INT => self.int_line()?,
            op::LONG => self.long_line()?,
            op::LONG1 => self.long(1)?,
            op::LONG4 => self.long(4)?,
            op::FLOAT => self.float_line()?,
            op::BINFLOAT => self.float()?,

            op::BINUNICODE => self.text(4)?,
            op::SHORT_BINUNICODE => self.text(1)?,
            op::BINUNICODE8 => self.text(8)?,
            op::UNICODE => self.text_line()?,
            // Python 2's `str`: every checkpoint that has it uses it for text.
            op::BINSTRING => self.text(4)?,
            op::SHORT_BINSTRING => self.text(1)?,
            op::BINBYTES => self.bytes(4)?,
            op::SHORT_BINBYTES => self.bytes(1)?,
            op::BINBYTES8 => self.bytes(8)?,
            op::BYTEARRAY8 => self.byte_array()?,

            op::MARK => self.marks.push(self.stack.len()),
            op::POP => self.discard()?,
            op::POP_MARK => drop(self.pop_mark()?),
            op::DUP => self.double()?,

            op::EMPTY_TUPLE => self.tuple(Vec::new())?,
            op::TUPLE1 => self.short_tuple(1)?,
            op::TUPLE2 => self.short_tuple(2)?,
            op::TUPLE3 => self.short_tuple(3)?,
            op::TUPLE => self.marked(Self::tuple)?,
            op::EMPTY_LIST => self.list()?,
            op::LIST => self.marked(|machine, items| machine.list().and_then(|()| machine.append(items)))?,
            op::EMPTY_DICT => self.dict()?,
            op::DICT => self.marked(|machine, items| machine.dict().and_then(|()| machine.set_items(items)))?,
            op::EMPTY_SET => self.push(Step::Set, Kind::Set, 1, 1)?,
            op::FROZENSET => self.marked(Self::frozen_set)?,
            op::APPEND => self.append_one()?,
            op::APPENDS => self.marked(Self::append)?,
            op::SETITEM => self.set_item()?,
            op::SETITEMS => self.marked(Self::set_items)?,
            op::ADDITEMS => self.marked(|machine, items| machine.top().and_then(|set| machine.add(set, items)))?,

            op::GET => self.memo_line().and_then(|index| self.recall(index))?,
            op::BINGET => self.memo_index(1).and_then(|index| self.recall(index))?,
            op::LONG_BINGET => self.memo_index(4).and_then(|index| self.recall(index))?,
            op::PUT => self.memo_line().and_then(|index| self.memorise(index))?,
            op::BINPUT => self.memo_index(1).and_then(|index| self.memorise(index))?,
            op::LONG_BINPUT => self.memo_index(4).and_then(|index| self.memorise(index))?,
            op::MEMOIZE => self.memorise(self.memo.len() as u32)?,

            op::GLOBAL => self.global_line()?,
            op::STACK_GLOBAL => self.stack_global()?,
            op::REDUCE => self.reduce()?,
            op::NEWOBJ => self.new_object()?,
            op::BUILD => self.build()?,
            op::BINPERSID => self.storage()?,
            unknown => return Err(Error::Opcode(unknown)),
        }
        Ok(())
    }

    // --- values -----------------------------------------------------------------------------------------

    fn push(&mut self, step: Step, kind: Kind, depth: u32, weight: u64) -> Result<()> {
        if self.values.len() >= self.limits.values {
            return Err(Error::Limit("the number of values"));
        }
        if depth > self.limits.depth {
            return Err(Error::Limit("nesting"));
        }
        self.stack.push(self.values.len() as Id);
        self.values.push(Value { step: self.steps.len() as u32, depth, weight, kind });
        self.steps.push(step);
        Ok(())
    }

    fn plain(&mut self, step: Step) -> Result<()> {
        self.push(step, Kind::Plain, 0, 1)
    }

    /// An integer: signed with four bytes, unsigned with fewer.
    fn int(&mut self, bytes: usize) -> Result<()> {
        let number = self.reader.number(bytes)? as u32;
        self.plain(Step::Int(if bytes == 4 { i64::from(number as i32) } else { i64::from(number) }))
    }

    fn int_line(&mut self) -> Result<()> {
        match self.reader.line()? {
            "00" => self.plain(Step::Bool(false)),
            "01" => self.plain(Step::Bool(true)),
            digits => self.decimal(digits),
        }
    }

    fn long_line(&mut self) -> Result<()> {
        let digits = self.reader.line()?;
        self.decimal(digits.trim_end_matches('L'))
    }

    fn float(&mut self) -> Result<()> {
        let bits = self.reader.number(8)?.swap_bytes();
        self.plain(Step::Float(f64::from_bits(bits)))
    }

    fn float_line(&mut self) -> Result<()> {
        let text = self.reader.line()?;
        let number = text.parse().map_err(|_| self.bad("a float cannot be read"))?;
        self.plain(Step::Float(number))
    }

    fn text_line(&mut self) -> Result<()> {
        let line = self.reader.line()?;
        if line.contains('\\') {
            return Err(self.bad("escapes in text strings are not supported"));
        }
        self.plain(Step::Str(line.to_owned()))
    }

    fn text(&mut self, length_bytes: usize) -> Result<()> {
        let text = self.reader.text(length_bytes)?;
        self.plain(Step::Str(text))
    }

    fn bytes(&mut self, length_bytes: usize) -> Result<()> {
        let bytes = copied(self.reader.sized(length_bytes)?)?;
        self.plain(Step::Bytes(bytes))
    }

    fn byte_array(&mut self) -> Result<()> {
        let bytes = copied(self.reader.sized(8)?)?;
        self.push(Step::ByteArray(bytes), Kind::Opaque, 0, 1)
    }

    fn long(&mut self, length_bytes: usize) -> Result<()> {
        let step = integer(self.reader.sized(length_bytes)?);
        let kind = if matches!(step, Step::BigInt(_)) { Kind::Huge } else { Kind::Plain };
        self.push(step, kind, 0, 1)
    }

    fn decimal(&mut self, digits: &str) -> Result<()> {
        // Larger integers come as LONG1 in every protocol since 2.
        let number = digits.parse().map_err(|_| self.bad("an integer cannot be read"))?;
        self.plain(Step::Int(number))
    }

    fn tuple(&mut self, items: Vec<Id>) -> Result<()> {
        let (depth, weight) = self.measure(&items);
        self.push(Step::Tuple(items), Kind::Tuple, depth, weight)
    }

    /// A tuple of the topmost values.
    fn short_tuple(&mut self, count: usize) -> Result<()> {
        if self.stack.len() < self.floor() + count {
            return Err(self.bad("pop from empty list"));
        }
        let items = self.stack.split_off(self.stack.len() - count);
        self.tuple(items)
    }

    fn list(&mut self) -> Result<()> {
        self.push(Step::List, Kind::List(Vec::new()), 1, 1)
    }

    fn dict(&mut self) -> Result<()> {
        self.push(Step::Dict, Kind::Dict, 1, 1)
    }

    fn frozen_set(&mut self, items: Vec<Id>) -> Result<()> {
        self.check_keys(items.iter().copied())?;
        let (depth, weight) = self.measure(&items);
        self.push(Step::FrozenSet(items), Kind::Tuple, depth, weight)
    }

    /// Depth and weight of a container of these values.
    fn measure(&self, items: &[Id]) -> (u32, u64) {
        items
            .iter()
            .map(|&item| &self.values[item as usize])
            .fold((1, 1), |(depth, weight), value| (depth.max(value.depth + 1), weight.saturating_add(value.weight)))
    }

    /// Updates the depth and weight of a container to which these items were added.
    fn grow(&mut self, container: Id, items: &[Id]) -> Result<()> {
        let (depth, weight) = self.measure(items);
        let limit = self.limits.depth;
        let value = &mut self.values[container as usize];
        value.depth = value.depth.max(depth);
        value.weight = value.weight.saturating_add(weight);
        if value.depth > limit { Err(Error::Limit("nesting")) } else { Ok(()) }
    }

    fn append(&mut self, items: Vec<Id>) -> Result<()> {
        let list = self.top()?;
        self.grow(list, &items)?;
        let Kind::List(known) = &mut self.values[list as usize].kind else {
            return Err(self.bad("append to something that is not a list"));
        };
        known.extend_from_slice(&items);
        self.steps.push(Step::Append { list, items });
        Ok(())
    }

    fn append_one(&mut self) -> Result<()> {
        let item = self.pop()?;
        self.append(vec![item])
    }

    fn set_item(&mut self) -> Result<()> {
        let value = self.pop()?;
        let key = self.pop()?;
        self.set_items(vec![key, value])
    }

    /// Sets items, given keys and values in turn.
    fn set_items(&mut self, items: Vec<Id>) -> Result<()> {
        let dict = self.top()?;
        if !matches!(self.kind(dict), Kind::Dict | Kind::Object) {
            return Err(self.bad("setting items of something that is not a dict"));
        }
        if !items.len().is_multiple_of(2) {
            return Err(self.bad("odd number of items for SETITEMS"));
        }
        self.check_keys(items.iter().copied().step_by(2))?;
        self.grow(dict, &items)?;
        let items = items.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        self.steps.push(Step::SetItems { dict, items });
        Ok(())
    }

    fn add(&mut self, set: Id, items: Vec<Id>) -> Result<()> {
        if !matches!(self.kind(set), Kind::Set) {
            return Err(self.bad("adding to something that is not a set"));
        }
        self.check_keys(items.iter().copied())?;
        self.grow(set, &items)?;
        self.steps.push(Step::Add { set, items });
        Ok(())
    }

    /// Rejects keys whose hash could take very long; unhashable ones are rejected in Python's words.
    fn check_keys(&self, keys: impl Iterator<Item = Id>) -> Result<()> {
        for key in keys {
            let value = &self.values[key as usize];
            match value.kind {
                Kind::List(_) => return Err(self.bad("unhashable type: 'list'")),
                Kind::Dict => return Err(self.bad("unhashable type: 'dict'")),
                Kind::Set => return Err(self.bad("unhashable type: 'set'")),
                Kind::Huge => return Err(Error::Limit("the size of an integer key")),
                _ if value.weight > self.limits.key_weight => return Err(Error::Limit("the size of a key")),
                _ => {}
            }
        }
        Ok(())
    }

    // --- globals and objects ----------------------------------------------------------------------------

    fn global_line(&mut self) -> Result<()> {
        let module = self.reader.line()?.to_owned();
        let name = self.reader.line()?.to_owned();
        self.global(module, name)
    }

    fn stack_global(&mut self) -> Result<()> {
        let (name, module) = (self.pop()?, self.pop()?);
        let (Step::Str(module), Step::Str(name)) = (self.step(module), self.step(name)) else {
            return Err(self.bad("the name of a global is not a string"));
        };
        let (module, name) = (module.clone(), name.clone());
        self.charge((module.len() + name.len()) as u64)?;
        self.global(module, name)
    }

    fn new_object(&mut self) -> Result<()> {
        let (arguments, class) = (self.pop()?, self.pop()?);
        self.callable(class)?;
        self.charge(self.values[arguments as usize].weight)?;
        self.push(Step::New { class, arguments }, Kind::Object, 1, 1)
    }

    fn build(&mut self) -> Result<()> {
        let state = self.pop()?;
        let object = self.top()?;
        if !matches!(self.kind(object), Kind::Object) {
            return Err(
                self.bad("Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_globals`")
            );
        }
        self.charge(self.values[state as usize].weight)?;
        self.steps.push(Step::Build { object, state });
        Ok(())
    }

    // --- stack and memo ---------------------------------------------------------------------------------

    /// The lowest stack position in reach: values below the innermost mark are not.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Result<Id> {
        let reachable = self.stack.len() > self.floor();
        let top = if reachable { self.stack.pop() } else { None };
        top.ok_or_else(|| self.bad("pop from empty list"))
    }

    fn top(&mut self) -> Result<Id> {
        let top = self.pop()?;
        self.stack.push(top);
        Ok(top)
    }

    fn pop_mark(&mut self) -> Result<Vec<Id>> {
        let mark = self.marks.pop().ok_or_else(|| self.bad("pop from empty list"))?;
        Ok(self.stack.split_off(mark))
    }

    /// Passes the values above the mark to `take`.
    fn marked(&mut self, take: impl FnOnce(&mut Self, Vec<Id>) -> Result<()>) -> Result<()> {
        let items = self.pop_mark()?;
        take(self, items)
    }

    /// Drops the topmost value, or the mark if one is on top.
    fn discard(&mut self) -> Result<()> {
        match self.marks.last() {
            Some(&mark) if mark == self.stack.len() => drop(self.marks.pop()),
            _ => drop(self.pop()?),
        }
        Ok(())
    }

    fn double(&mut self) -> Result<()> {
        let top = self.pop()?;
        self.stack.extend([top, top]);
        Ok(())
    }

    fn memo_index(&mut self, bytes: usize) -> Result<u32> {
        Ok(self.reader.number(bytes)? as u32)
    }

    fn memo_line(&mut self) -> Result<u32> {
        self.reader.line()?.parse().map_err(|_| self.bad("a memo index cannot be read"))
    }

    fn memorise(&mut self, index: u32) -> Result<()> {
        let top = self.top()?;
        self.memo.insert(index, top);
        Ok(())
    }

    fn recall(&mut self, index: u32) -> Result<()> {
        let value = *self.memo.get(&index).ok_or_else(|| self.bad(format!("memo has no entry {index}")))?;
        self.stack.push(value);
        Ok(())
    }

    // --- small things -----------------------------------------------------------------------------------

    fn step(&self, value: Id) -> &Step {
        &self.steps[self.values[value as usize].step as usize]
    }

    fn kind(&self, value: Id) -> &Kind {
        &self.values[value as usize].kind
    }

    fn charge(&mut self, cost: u64) -> Result<()> {
        self.work = self.work.checked_sub(cost).ok_or(Error::Limit("the work it asks for"))?;
        Ok(())
    }

    fn describe(&self, value: Id) -> String {
        match self.step(value) {
            Step::Int(number) => number.to_string(),
            Step::Str(text) => format!("{:?}", text.chars().take(40).collect::<String>()),
            Step::Global { module, name } => full_name(module, name),
            _ => "of another type".to_owned(),
        }
    }

    fn bad(&self, what: impl Into<String>) -> Error {
        bad(self.at, what)
    }
}
