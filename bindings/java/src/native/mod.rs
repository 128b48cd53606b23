//! The native methods of the class `Native`: tables, and one wrapper for all of them.
//!
//! `JNI_OnLoad` is the only function that the library exports. It registers the methods of the
//! table with the class `Native` next to the class that loads the library, so that the Java
//! packages can be relocated. Their signatures are derived from the Rust types. The JVM refuses a
//! method that the class does not declare; a test of the Java side finds one that is missing here.

#![expect(unsafe_code, reason = "the JVM calls these functions: see the SAFETY notes")]

mod catalog;
mod collection;
mod indexer;
mod getters;
mod log;
mod reader;
mod sharded;
mod table;
mod testing;

use crate::error::{self, Failure, Result};
use jni::errors::Error as JniError;
use jni::objects::{
    JByteArray, JByteBuffer, JIntArray, JLongArray, JObject, JObjectArray, JStackTraceElement,
    JString, JThread,
};
use jni::strings::JNIString;
use jni::sys::{JNI_ERR, JNI_VERSION_1_8, jboolean, jdouble, jint, jlong};
use jni::{Env, EnvUnowned, JavaVM, NativeMethod, Outcome, jni_sig, jni_str};
use std::ffi::c_void;

/// Runs a native method: turns a failure or a panic into an exception.
#[inline]
fn run<'l, T: Default>(
    mut env: EnvUnowned<'l>,
    method: impl FnOnce(&mut Env<'l>) -> Result<T>,
) -> T {
    match env.with_env(method).into_outcome() {
        Outcome::Ok(result) => result,
        other => {
            fail(env, other);
            T::default()
        }
    }
}

#[cold]
fn fail<T>(mut env: EnvUnowned<'_>, outcome: Outcome<T, Failure>) {
    let throw = |env: &mut Env<'_>| -> jni::errors::Result<()> {
        match outcome {
            Outcome::Ok(_) => {}
            Outcome::Err(failure) => error::throw(env, &failure),
            Outcome::Panic(payload) => error::throw_panic(env, &*payload),
        }
        Ok(())
    };
    let _ = env.with_env(throw).into_outcome();
}

/// A Rust type of an argument or a result, and its name in a signature.
trait Described {
    const NAME: &'static str;
}

macro_rules! described {
    ($($type:ty: $name:literal;)*) => {
        $(impl Described for $type { const NAME: &'static str = $name; })*
    };
}

described! {
    (): "V";
    jboolean: "Z";
    jint: "I";
    jlong: "J";
    jdouble: "D";
    JByteArray<'_>: "[B";
    JIntArray<'_>: "[I";
    JLongArray<'_>: "[J";
    JObjectArray<'_, JString<'_>>: "[Ljava/lang/String;";
    JByteBuffer<'_>: "Ljava/nio/ByteBuffer;";
    JObject<'_>: "Ljava/lang/Object;";
    JString<'_>: "Ljava/lang/String;";
}

/// A method of the table: its name and signature in Java, and its function.
struct Method {
    name: &'static str,
    signature: String,
    function: *mut c_void,
}

/// Defines native methods and their table, `all`. `$l` is the lifetime of the arguments.
///
/// A key, a value or a destination is four arguments: see [`crate::convert::Part`]. A write has
/// three for its options: see [`crate::log::Write`]. `id` is a handle.
macro_rules! methods {
    ($l:lifetime; $(
        fn $name:ident($env:ident $(, $argument:ident: $type:ty)* $(,)?) -> $result:ty
            $body:block
    )*) => {
        /// The functions under the names of the methods.
        #[allow(non_snake_case, clippy::too_many_arguments)]
        mod functions {
            use super::*;
            $(
                pub extern "system" fn $name<$l>(
                    env: EnvUnowned<$l>,
                    _receiver: JObject<$l>,
                    $($argument: $type,)*
                ) -> $result {
                    run(env, |$env| $body)
                }
            )*
        }

        /// All methods.
        #[rustfmt::skip]
        #[allow(clippy::extra_unused_lifetimes, reason = "of the types")]
        pub fn all<$l>() -> Vec<Method> {
            vec![$(Method {
                name: stringify!($name),
                signature: [
                    "(", $(<$type as Described>::NAME,)* ")", <$result as Described>::NAME,
                ].concat(),
                function: functions::$name as *mut c_void,
            },)*]
        }
    };
}

use methods;

/// All native methods.
fn all() -> Vec<Method> {
    let all = [
        getters::all(),
        log::all(),
        table::all(),
        sharded::all(),
        collection::all(),
        reader::all(),
        indexer::all(),
        catalog::all(),
        testing::all(),
    ];
    all.into_iter().flatten().collect()
}

/// Finds the class `Native`, registers its methods, and remembers it for exceptions.
fn register(env: &mut Env<'_>) -> jni::errors::Result<()> {
    let name = native_class(env)?;
    let class = env.find_class(&*JNIString::from(name))?;
    for Method { name, signature, function } in all() {
        let (name, signature) = (JNIString::from(name), JNIString::from(signature));
        // SAFETY: the signature is made of the types of the function's arguments. The function
        // stays loaded as long as the class: both belong to its class loader.
        unsafe {
            let method = NativeMethod::from_raw_parts(&name, &signature, function);
            env.register_native_methods(&class, &[method])?;
        }
    }
    let class = env.new_weak_ref(&class)?;
    error::set_class(class);
    Ok(())
}

/// The name of the class `Native` in the package of the class that loads this library, which is the
/// first on the stack outside of the JDK.
fn native_class(env: &mut Env<'_>) -> jni::errors::Result<String> {
    let thread = JThread::current_thread(env)?;
    let stack = env.call_method(
        &thread,
        jni_str!("getStackTrace"),
        jni_sig!("()[Ljava/lang/StackTraceElement;"),
        &[],
    )?;
    let stack = env.cast_local::<JObjectArray<JStackTraceElement>>(stack.l()?)?;
    for depth in 0..stack.len(env)? {
        let element = stack.get_element(env, depth)?;
        let name = element.get_class_name(env)?.try_to_string(env)?;
        if !["java.", "jdk.", "sun."].iter().any(|start| name.starts_with(start)) {
            let package = name.rsplit_once('.').map_or("", |(package, _)| package);
            return Ok(format!("{}/Native", package.replace('.', "/")));
        }
    }
    Err(JniError::NullPtr("the class that loads the library"))
}

/// Called by the JVM when it has loaded the library.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "system" fn JNI_OnLoad(vm: *mut jni::sys::JavaVM, _reserved: *mut c_void) -> jint {
    // SAFETY: the JVM passes a pointer to itself.
    let vm = unsafe { JavaVM::from_raw(vm) };
    let load = |env: &mut Env<'_>| -> jni::errors::Result<()> {
        let registered = register(env);
        if let Err(error) = &registered
            && !env.exception_check()
        {
            // The JVM passes it on; otherwise its message would not have the reason.
            let message = JNIString::from(format!("cannot register native methods: {error}"));
            let _ = env.throw_new(jni_str!("java/lang/UnsatisfiedLinkError"), &*message);
        }
        registered
    };
    match std::panic::catch_unwind(|| vm.with_top_local_frame(load)) {
        Ok(Ok(())) => JNI_VERSION_1_8,
        _ => JNI_ERR,
    }
}
