//! Bytes, strings and numbers between Java and Rust.
//!
//! Functions of the JVM that copy bytes are called directly. The crate `jni` would check for a
//! pending exception before and after each call. The checks take as long as the copy, and would
//! dominate the time of a get.

#![expect(unsafe_code, reason = "calls of the JVM and memory of buffers: see the SAFETY notes")]

use crate::error::{Failure, Result};
use firndb::Error;
use jni::objects::{
    JByteArray, JByteBuffer, JIntArray, JLongArray, JMethodID, JObject, JObjectArray, JString,
};
use jni::sys::{jint, jlong, jvalue};
use jni::{Env, jni_sig, jni_str};
use std::cell::Cell;
use std::path::PathBuf;

/// Longest array that every JVM can make.
const ARRAY_MAX: usize = i32::MAX as usize - 8;
/// Longest key that is copied to the stack.
const KEY_ON_STACK: usize = 128;
/// Longest text that is copied to the stack, in UTF-16 units.
const NAME_ON_STACK: usize = 64;
/// Largest buffer for values that a thread keeps.
const KEPT_BYTES: usize = 1 << 20;

/// A part of an array, or of a direct buffer if `array` is null. The Java side has checked that
/// offset and length are inside.
pub struct Part<'l> {
    pub array: JByteArray<'l>,
    pub buffer: JByteBuffer<'l>,
    pub offset: jint,
    pub length: jint,
}

impl<'l> Part<'l> {
    pub fn new(
        array: JByteArray<'l>,
        buffer: JByteBuffer<'l>,
        offset: jint,
        length: jint,
    ) -> Part<'l> {
        Part { array, buffer, offset, length }
    }

    fn len(&self) -> usize {
        usize::try_from(self.length).unwrap_or(0)
    }

    /// Copies the part into `to`, which has its length.
    #[inline]
    fn copy_to(&self, env: &Env<'_>, to: &mut [u8]) -> Result<()> {
        debug_assert_eq!(self.len(), to.len());
        if !self.array.is_null() {
            return read_array(env, &self.array, self.offset, to);
        }
        let from = self.address(env)?;
        // SAFETY: the Java side passes a position and a length inside of the buffer, which lives as
        // long as the call, because it is its argument. Other threads may write to it; that is why
        // the bytes are copied and not borrowed. `to` is memory of Rust and does not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Copies `bytes`, which must fit, to the beginning of the part.
    #[inline]
    pub fn write(&self, env: &Env<'_>, bytes: &[u8]) -> Result<()> {
        debug_assert!(bytes.len() <= self.len());
        if !self.array.is_null() {
            return write_array(env, &self.array, self.offset, bytes);
        }
        let to = self.address(env)?;
        // SAFETY: as in `copy_to`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    /// Whether `length` bytes fit.
    pub fn fits(&self, length: usize) -> bool {
        length <= self.len()
    }

    /// The first byte in a direct buffer.
    fn address(&self, env: &Env<'_>) -> Result<*mut u8> {
        let raw = env.get_raw();
        // SAFETY: `raw` is the environment of this thread, and `buffer` a reference of this call.
        let start = unsafe { ((**raw).v1_4.GetDirectBufferAddress)(raw, self.buffer.as_raw()) };
        if start.is_null() {
            return Err(Error::invalid("the memory of the buffer cannot be accessed").into());
        }
        let offset = usize::try_from(self.offset).unwrap_or(0);
        Ok(start.cast::<u8>().wrapping_add(offset))
    }

    /// Copies a key from Java and passes the bytes to `call`.
    #[inline]
    pub fn with_key<R>(
        &self,
        env: &mut Env<'l>,
        call: impl FnOnce(&mut Env<'l>, &[u8]) -> Result<R>,
    ) -> Result<R> {
        if self.len() <= KEY_ON_STACK {
            let mut key = [0; KEY_ON_STACK];
            let key = &mut key[..self.len()];
            self.copy_to(env, key)?;
            return call(env, key);
        }
        let key = self.to_vec(env)?;
        call(env, &key)
    }

    /// Copies a value from Java and passes the bytes to `call`.
    pub fn with_value<R>(
        &self,
        env: &mut Env<'l>,
        call: impl FnOnce(&mut Env<'l>, &[u8]) -> Result<R>,
    ) -> Result<R> {
        thread_local! {
            /// The buffer that this thread used last. Its contents do not matter.
            static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
        }
        let mut buffer = BUFFER.take();
        if buffer.len() < self.len() {
            buffer.resize(self.len(), 0);
        }
        let value = &mut buffer[..self.len()];
        let result = self.copy_to(env, value).and_then(|()| call(env, value));
        if buffer.len() <= KEPT_BYTES {
            BUFFER.set(buffer);
        }
        result
    }

    pub fn to_vec(&self, env: &Env<'_>) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.len()];
        self.copy_to(env, &mut bytes)?;
        Ok(bytes)
    }
}

/// Copies a part of an array. `Pending` if it is not inside of the array.
#[inline]
fn read_array(env: &Env<'_>, array: &JByteArray<'_>, offset: jint, to: &mut [u8]) -> Result<()> {
    let raw = env.get_raw();
    let length = jint::try_from(to.len()).unwrap_or(jint::MAX);
    // SAFETY: `raw` is the environment of this thread, `array` an array of bytes, and `to` has
    // `length` bytes. The JVM checks the bounds of the array. `to` is initialised in any case.
    unsafe {
        ((**raw).v1_1.GetByteArrayRegion)(
            raw,
            array.as_raw(),
            offset,
            length,
            to.as_mut_ptr().cast(),
        );
    }
    Ok(())
}

/// Copies bytes into an array. An exception is pending if they are not inside of the array.
#[inline]
fn write_array(env: &Env<'_>, array: &JByteArray<'_>, offset: jint, bytes: &[u8]) -> Result<()> {
    let raw = env.get_raw();
    let length = jint::try_from(bytes.len()).unwrap_or(jint::MAX);
    // SAFETY: as in `read_array`.
    unsafe {
        ((**raw).v1_1.SetByteArrayRegion)(
            raw,
            array.as_raw(),
            offset,
            length,
            bytes.as_ptr().cast(),
        );
    }
    Ok(())
}

/// A new array with these bytes.
#[inline]
pub fn new_array<'l>(env: &mut Env<'l>, bytes: &[u8]) -> Result<JByteArray<'l>> {
    let length = array_length(bytes.len())?;
    let raw = env.get_raw();
    // SAFETY: `raw` is the environment of this thread. A null result means that an exception is
    // pending; otherwise it is a new local reference to an array of bytes.
    let array = unsafe {
        let array = ((**raw).v1_1.NewByteArray)(raw, length);
        if array.is_null() {
            return Err(Failure::Pending);
        }
        JByteArray::from_raw(env, array)
    };
    write_array(env, &array, 0, bytes)?;
    Ok(array)
}

/// The length of an array of `length` bytes or numbers.
pub fn array_length(length: usize) -> Result<jint> {
    if length > ARRAY_MAX {
        return Err(Error::invalid(format!(
            "the result has a length of {length}; an array of Java has at most {ARRAY_MAX}"
        ))
        .into());
    }
    Ok(length as jint)
}

/// The first `length` bytes of an array.
pub fn bytes_of(env: &Env<'_>, array: &JByteArray<'_>, length: jint) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    array.get_region(env, 0, as_signed(&mut bytes))?;
    Ok(bytes)
}

/// All bytes of an array, or `None` for null.
pub fn optional_bytes(env: &Env<'_>, array: &JByteArray<'_>) -> Result<Option<Vec<u8>>> {
    if array.is_null() {
        return Ok(None);
    }
    let mut bytes = vec![0; array.len(env)?];
    array.get_region(env, 0, as_signed(&mut bytes))?;
    Ok(Some(bytes))
}

fn as_signed(bytes: &mut [u8]) -> &mut [i8] {
    // SAFETY: both types have the same size, alignment and validity.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) }
}

/// Part of an array of numbers.
pub fn longs_of(
    env: &Env<'_>,
    array: &JLongArray<'_>,
    from: jint,
    count: jint,
) -> Result<Vec<jlong>> {
    let mut numbers = vec![0; usize::try_from(count).unwrap_or(0)];
    array.get_region(env, from, &mut numbers)?;
    Ok(numbers)
}

/// Part of an array of numbers.
pub fn ints_of(env: &Env<'_>, array: &JIntArray<'_>, from: jint, count: jint) -> Result<Vec<jint>> {
    let mut numbers = vec![0; usize::try_from(count).unwrap_or(0)];
    array.get_region(env, from, &mut numbers)?;
    Ok(numbers)
}

/// A new array of numbers.
#[inline]
pub fn new_longs<'l>(env: &mut Env<'l>, numbers: &[jlong]) -> Result<JLongArray<'l>> {
    let length = array_length(numbers.len())?;
    let raw = env.get_raw();
    // SAFETY: `raw` is the environment of this thread. A null result means that an exception is
    // pending; otherwise it is a new local reference to an array of `length` numbers.
    unsafe {
        let array = ((**raw).v1_1.NewLongArray)(raw, length);
        if array.is_null() {
            return Err(Failure::Pending);
        }
        ((**raw).v1_1.SetLongArrayRegion)(raw, array, 0, length, numbers.as_ptr());
        Ok(JLongArray::from_raw(env, array))
    }
}

/// A new array of strings.
pub fn new_strings<'l>(
    env: &mut Env<'l>,
    texts: Vec<String>,
) -> Result<JObjectArray<'l, JString<'l>>> {
    let array = JObjectArray::<JString>::new(env, texts.len(), JString::default())?;
    for (at, text) in texts.into_iter().enumerate() {
        let text = env.new_string(text)?;
        array.set_element(env, at, &text)?;
        env.delete_local_ref(text);
    }
    Ok(array)
}

/// A count or size as a number of Java.
pub fn long(number: u64) -> jlong {
    jlong::try_from(number).unwrap_or(jlong::MAX)
}

pub fn path(env: &Env<'_>, text: &JString<'_>) -> Result<PathBuf> {
    Ok(text.try_to_string(env)?.into())
}

/// A string, or `None` for null.
pub fn optional_string(env: &Env<'_>, text: &JString<'_>) -> Result<Option<String>> {
    if text.is_null() { Ok(None) } else { Ok(Some(text.try_to_string(env)?)) }
}

/// Passes a text to `call`. Short ASCII texts, such as names of fields, allocate nothing.
pub fn with_text<R>(
    env: &mut Env<'_>,
    text: &JString<'_>,
    call: impl FnOnce(&str) -> Result<R>,
) -> Result<R> {
    if text.is_null() {
        env.throw_new(jni_str!("java/lang/NullPointerException"), jni_str!("a name is null"))?;
        return Err(Failure::Pending);
    }
    let raw = env.get_raw();
    // SAFETY: `raw` is the environment of this thread, and `text` a string.
    let length = unsafe { ((**raw).v1_1.GetStringLength)(raw, text.as_raw()) };
    let length = usize::try_from(length).unwrap_or(0);
    let mut on_stack = [0; NAME_ON_STACK];
    let mut on_heap = Vec::new();
    let units = if length <= NAME_ON_STACK {
        &mut on_stack[..length]
    } else {
        on_heap.resize(length, 0);
        &mut on_heap[..]
    };
    // SAFETY: as above. `units` has the length of the string, which never changes.
    unsafe {
        ((**raw).v1_2.GetStringRegion)(raw, text.as_raw(), 0, length as jint, units.as_mut_ptr());
    }
    let mut bytes = [0; NAME_ON_STACK];
    if length <= NAME_ON_STACK && units.iter().all(|unit| *unit < 0x80) {
        for (byte, unit) in bytes.iter_mut().zip(&*units) {
            *byte = *unit as u8;
        }
        if let Ok(text) = std::str::from_utf8(&bytes[..length]) {
            return call(text);
        }
    }
    let text = String::from_utf16(units);
    call(&text.map_err(|_| Error::invalid("a name is not valid Unicode"))?)
}

/// A function of Java: a `java.util.function.LongPredicate`.
pub struct LongPredicate<'a, 'l> {
    object: &'a JObject<'l>,
    method: JMethodID,
}

impl<'a, 'l> LongPredicate<'a, 'l> {
    pub fn new(env: &mut Env<'l>, object: &'a JObject<'l>) -> Result<LongPredicate<'a, 'l>> {
        let method = env.get_method_id(
            jni_str!("java/util/function/LongPredicate"),
            jni_str!("test"),
            jni_sig!("(J)Z"),
        )?;
        Ok(LongPredicate { object, method })
    }

    /// Calls the function. It makes no local references, so that it can be called any number of
    /// times.
    #[inline]
    pub fn test(&self, env: &Env<'_>, number: jlong) -> Result<bool> {
        let raw = env.get_raw();
        let arguments = [jvalue { j: number }];
        // SAFETY: `raw` is the environment of this thread, the object is not null and has the
        // class of the method, whose argument is a number: the Java side passes it so.
        let result = unsafe {
            ((**raw).v1_1.CallBooleanMethodA)(
                raw,
                self.object.as_raw(),
                self.method.into_raw(),
                arguments.as_ptr(),
            )
        };
        if env.exception_check() { Err(Failure::Pending) } else { Ok(result) }
    }
}

/// Values of a batch of keys on their way to Java: their bytes one after another, and their
/// lengths.
pub struct Values {
    bytes: Vec<u8>,
    lengths: Vec<jint>,
}

/// Length of an absent value.
const ABSENT: jint = -1;
/// Bytes after which the values of the remaining keys are left to another call.
pub const BATCH_BYTES: usize = 64 << 20;

impl Values {
    pub fn new(keys: usize) -> Values {
        Values { bytes: Vec::new(), lengths: Vec::with_capacity(keys) }
    }

    /// Adds a value. `Full` if the values before it are enough for one call.
    pub fn push(&mut self, value: Option<&[u8]>) -> std::result::Result<(), Full> {
        let Some(value) = value else {
            self.lengths.push(ABSENT);
            return Ok(());
        };
        let length = array_length(value.len()).map_err(|failure| Full(Some(failure)))?;
        if !self.bytes.is_empty() && self.bytes.len() + value.len() > BATCH_BYTES {
            return Err(Full(None));
        }
        self.bytes.extend_from_slice(value);
        self.lengths.push(length);
        Ok(())
    }

    /// Writes the lengths to `lengths` from `from` on and returns an array of the bytes. Keys
    /// without an answer keep the length that they have.
    pub fn finish<'l>(
        &self,
        env: &mut Env<'l>,
        lengths: &JIntArray<'_>,
        from: jint,
    ) -> Result<JByteArray<'l>> {
        lengths.set_region(env, from, &self.lengths)?;
        new_array(env, &self.bytes)
    }
}

/// A batch is over before its end: an error, or `None` if the values so far are enough.
pub struct Full(Option<Failure>);

impl From<Failure> for Full {
    fn from(failure: Failure) -> Full {
        Full(Some(failure))
    }
}

impl From<Error> for Full {
    fn from(error: Error) -> Full {
        Full(Some(error.into()))
    }
}

/// The values that `read` pushed before it ended.
pub fn collect_values(
    keys: usize,
    read: impl FnOnce(&mut Values) -> std::result::Result<(), Full>,
) -> Result<Values> {
    let mut values = Values::new(keys);
    match read(&mut values) {
        Ok(()) | Err(Full(None)) => Ok(values),
        Err(Full(Some(failure))) => Err(failure),
    }
}

/// The keys of a batch: `bytes` has them one after another, `ends` where each ends. Keys before
/// `from` are left out.
pub fn keys<'a>(bytes: &'a [u8], ends: &[jint], start: jint) -> Result<Vec<&'a [u8]>> {
    let mut start = usize::try_from(start).unwrap_or(0);
    let key = |end: &jint| {
        let range = start..usize::try_from(*end).unwrap_or(0);
        start = range.end;
        bytes.get(range).ok_or_else(|| Error::invalid("the ends of the keys are out of order"))
    };
    Ok(ends.iter().map(key).collect::<firndb::Result<_>>()?)
}

/// Reads what the Java side packed: numbers in little-endian order, and bytes after their length.
pub struct Unpack<'a>(pub &'a [u8]);

impl<'a> Unpack<'a> {
    pub fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub fn long(&mut self) -> Result<i64> {
        let bytes = self.take(8)?;
        Ok(bytes.iter().rev().fold(0, |number, &byte| (number << 8) | i64::from(byte)))
    }

    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.int()? as usize;
        self.take(length)
    }

    pub fn int(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(bytes.iter().rev().fold(0, |number, &byte| (number << 8) | u32::from(byte)))
    }

    pub fn text(&mut self) -> Result<&'a str> {
        let text = std::str::from_utf8(self.bytes()?);
        Ok(text.map_err(|_| Error::invalid("a packed text is not UTF-8"))?)
    }

    /// Texts up to the end.
    pub fn texts(&mut self) -> Result<Vec<&'a str>> {
        let mut texts = Vec::new();
        while !self.0.is_empty() {
            texts.push(self.text()?);
        }
        Ok(texts)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .0
            .split_at_checked(length)
            .ok_or_else(|| Error::invalid("a packed batch ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }
}

/// Packs results for the Java side, as [`Unpack`] reads arguments.
#[derive(Default)]
pub struct Pack(pub Vec<u8>);

impl Pack {
    pub fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub fn int(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub fn long(&mut self, number: i64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Adds bytes after their length. What is longer than 4 GiB fits into no array anyway.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.int(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.0.extend_from_slice(bytes);
    }

    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Adds texts after their number.
    pub fn texts(&mut self, texts: &[impl AsRef<str>]) {
        self.int(u32::try_from(texts.len()).unwrap_or(u32::MAX));
        texts.iter().for_each(|text| self.text(text.as_ref()));
    }

    /// The array, or an error if it would be too large for Java.
    pub fn finish<'l>(&self, env: &mut Env<'l>) -> Result<JByteArray<'l>> {
        new_array(env, &self.0)
    }
}

/// Records on their way to Java: lengths of key and value as 4 bytes each, key, value.
#[derive(Default)]
pub struct Records(pub Vec<u8>);

impl Records {
    /// Adds a record. If it is too large for an array of Java, `false`.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> bool {
        if self.0.len() + key.len() + value.len() + 8 > ARRAY_MAX {
            return false;
        }
        for length in [key.len(), value.len()] {
            self.0.extend_from_slice(&(length as u32).to_le_bytes());
        }
        self.0.extend_from_slice(key);
        self.0.extend_from_slice(value);
        true
    }
}

/// The error for records that do not fit into an array.
pub fn too_large() -> Failure {
    Error::invalid("the records are too large for an array of Java").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_cut_at_their_ends() {
        let found = |ends: &[jint], start| keys(b"abcdef", ends, start).ok();
        assert_eq!(found(&[1, 1, 6], 0), Some(vec![&b"a"[..], b"", b"bcdef"]));
        assert_eq!(found(&[4], 3), Some(vec![&b"d"[..]]));
        assert_eq!(found(&[7], 0), None);
        assert_eq!(found(&[3, 2], 0), None);
        assert_eq!(found(&[-1], 0), Some(vec![&b""[..]]));
    }

    #[test]
    fn packed_batches_are_checked() {
        let packed = [7, 1, 0, 0, 0, 0, 0, 0, 0x80, 2, 0, 0, 0, b'o', b'k'];
        let mut unpack = Unpack(&packed);
        assert_eq!(unpack.byte().ok(), Some(7));
        assert_eq!(unpack.long().ok(), Some(i64::MIN + 1));
        assert_eq!(unpack.bytes().ok(), Some(&b"ok"[..]));
        assert!(unpack.byte().is_err());
        assert!(Unpack(&[5, 0, 0, 0, 1]).bytes().is_err());
        assert!(Unpack(&[255; 8]).bytes().is_err());
    }

    #[test]
    fn a_batch_of_values_ends_when_there_are_enough() {
        let value = vec![1; BATCH_BYTES / 2 + 1];
        let values = collect_values(3, |values| {
            values.push(None)?;
            values.push(Some(&value))?;
            values.push(Some(&value))?;
            panic!("the values before are enough");
        });
        let Ok(values) = values else { panic!("no error") };
        assert_eq!(values.lengths, [ABSENT, value.len() as jint]);
    }
}
