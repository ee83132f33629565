//! Globals, and the calls in a pickle: rejected, evaluated here, or recorded as steps for the consumer.

use super::super::builtins::full_name;
use super::super::builtins::{Builtin, latin1};
use super::super::{Id, Slice, Step, Storage, Use};
use super::{Kind, Machine, Value};
use crate::{Error, Result};

impl Machine<'_> {
    pub(super) fn global(&mut self, module: String, name: String) -> Result<()> {
        let Some(permitted) = self.policy.verdict(&module, &name) else {
            let full = full_name(&module, &name);
            return Err(Error::Global(full.strip_prefix("builtins.").unwrap_or(&full).to_owned()));
        };
        let kind = Kind::Global(permitted, Builtin::named(&module, &name));
        self.push(Step::Global { module, name }, kind, 0, 1)
    }

    pub(super) fn callable(&self, function: Id) -> Result<()> {
        match self.kind(function) {
            Kind::Global(Use::Call, _) => Ok(()),
            _ => Err(self.bad(format!("Trying to call reduce for unrecognized function {}", self.describe(function)))),
        }
    }

    pub(super) fn reduce(&mut self) -> Result<()> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let Step::Tuple(items) = self.step(arguments) else {
            return Err(self.bad("the arguments of a call are not a tuple"));
        };
        let Value { weight, depth, .. } = self.values[arguments as usize];
        if let Kind::Global(_, Some(builtin)) = *self.kind(function) {
            let items = items.clone();
            self.charge(weight)?;
            return self.call_builtin(builtin, &items);
        }
        self.charge(weight)?;
        self.callable(function)?;
        if let Some(pairs) = self.ordered_items(function, arguments) {
            return self.ordered_dict(function, pairs);
        }
        self.push(Step::Call { function, arguments }, Kind::Object, depth + 1, weight)
    }

    /// The list in `OrderedDict([[key, value], ...])`, as Python 2 writes it, if this is such a call.
    fn ordered_items(&self, function: Id, arguments: Id) -> Option<Id> {
        let Step::Global { module, name } = self.step(function) else { return None };
        let Step::Tuple(items) = self.step(arguments) else { return None };
        (module == "collections" && name == "OrderedDict" && !items.is_empty()).then(|| items[0])
    }

    /// An empty OrderedDict and then its items, so that the keys are checked like all others.
    fn ordered_dict(&mut self, function: Id, pairs: Id) -> Result<()> {
        let Kind::List(pairs) = self.kind(pairs) else {
            return Err(self.bad("the items of an OrderedDict are not a list"));
        };
        let mut items = Vec::with_capacity(pairs.len() * 2);
        for &pair in pairs {
            match (self.kind(pair), self.step(pair)) {
                (Kind::List(parts), _) | (_, Step::Tuple(parts)) if parts.len() == 2 => items.extend_from_slice(parts),
                _ => return Err(self.bad("an item of an OrderedDict is not a pair")),
            }
        }
        self.tuple(Vec::new())?;
        let arguments = self.pop()?;
        self.push(Step::Call { function, arguments }, Kind::Object, 1, 1)?;
        self.set_items(items)
    }

    fn call_builtin(&mut self, builtin: Builtin, arguments: &[Id]) -> Result<()> {
        let steps: Vec<&Step> = arguments.iter().map(|&argument| self.step(argument)).collect();
        let step = match (builtin, steps.as_slice()) {
            (Builtin::Set | Builtin::FrozenSet, _) => return self.call_set(builtin, arguments),
            (Builtin::Complex, [Step::Float(real), Step::Float(imaginary)]) => Step::Complex(*real, *imaginary),
            (Builtin::Bytes, []) => Step::Bytes(Vec::new()),
            (Builtin::ByteArray, []) => Step::ByteArray(Vec::new()),
            (Builtin::Bytes | Builtin::ByteArray, [Step::Bytes(bytes)]) => {
                let (bytes, size) = (bytes.clone(), bytes.len() as u64);
                self.charge(size)?;
                if builtin == Builtin::Bytes { Step::Bytes(bytes) } else { Step::ByteArray(bytes) }
            }
            (Builtin::Encode | Builtin::ByteArray, [Step::Str(text), Step::Str(encoding)]) => {
                let size = text.len() as u64;
                let bytes = latin1(text, encoding).ok_or_else(|| self.bad("bytes are not encoded in latin-1"))?;
                self.charge(size)?;
                if builtin == Builtin::Encode { Step::Bytes(bytes) } else { Step::ByteArray(bytes) }
            }
            _ => return Err(self.bad(format!("{builtin:?} is called with unsupported arguments"))),
        };
        let kind = if matches!(step, Step::ByteArray(_)) { Kind::Opaque } else { Kind::Plain };
        self.push(step, kind, 0, 1)
    }

    /// `set(items)` whose items are a list or a tuple.
    fn call_set(&mut self, builtin: Builtin, arguments: &[Id]) -> Result<()> {
        let items = match arguments {
            [] => Vec::new(),
            &[items] => match (self.kind(items), self.step(items)) {
                (Kind::List(items), _) | (_, Step::Tuple(items)) => items.clone(),
                _ => return Err(self.bad("the items of a set are not a list")),
            },
            _ => return Err(self.bad("a set has one argument")),
        };
        self.charge(items.len() as u64)?;
        if builtin == Builtin::FrozenSet {
            return self.frozen_set(items);
        }
        self.push(Step::Set, Kind::Set, 1, 1)?;
        let set = self.top()?;
        self.add(set, items)
    }

    /// torch's persistent id: `("storage", class, key, location, elements)`, with one more part in old files.
    pub(super) fn storage(&mut self) -> Result<()> {
        let id = self.pop()?;
        let Step::Tuple(parts) = self.step(id) else {
            return Err(self.bad("saved_id must be a tuple"));
        };
        let parts: Vec<&Step> = parts.iter().map(|&part| self.step(part)).collect();
        let storage = match parts[..] {
            [
                Step::Str(tag),
                Step::Global { module, name },
                Step::Str(key),
                Step::Str(location),
                &Step::Int(elements),
                ref view @ ..,
            ] if tag == "storage" && elements >= 0 => Storage {
                module: module.clone(),
                class: name.clone(),
                key: key.clone(),
                location: location.clone(),
                elements: elements as u64,
                slice: self.slice(view, elements)?,
            },
            _ => return Err(self.bad("Unknown typename for persistent_load, expected a storage")),
        };
        let slice = storage.slice.as_ref().map_or(0, |slice| slice.key.len());
        self.charge(
            (slice + storage.key.len() + storage.location.len() + storage.module.len() + storage.class.len()) as u64,
        )?;
        self.push(Step::Storage(storage), Kind::Opaque, 0, 1)
    }

    /// The last part of a persistent id: which elements of the storage are meant, if not all.
    fn slice(&self, view: &[&Step], elements: i64) -> Result<Option<Slice>> {
        let parts = match view {
            [] | [Step::None] => return Ok(None),
            [Step::Tuple(parts)] => parts,
            _ => return Err(self.bad("Unknown typename for persistent_load, expected a storage")),
        };
        let parts: Vec<&Step> = parts.iter().map(|&part| self.step(part)).collect();
        match parts[..] {
            [Step::Str(key), &Step::Int(start), &Step::Int(count)]
                if start >= 0 && count >= 0 && start.checked_add(count).is_some_and(|end| end <= elements) =>
            {
                Ok(Some(Slice { key: key.clone(), start: start as u64, elements: count as u64 }))
            }
            _ => Err(self.bad("a slice of a storage must be a name, a start and a count within the storage")),
        }
    }
}
