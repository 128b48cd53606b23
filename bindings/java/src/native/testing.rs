//! Native methods for tests.

use super::{Described, Method, methods, run};
use crate::convert::new_strings;
use firndb::ErrorKind;
use jni::EnvUnowned;
use jni::objects::{JObject, JObjectArray, JString};
use std::ffi::c_void;

methods! { 'l;

    fn methods(env) -> JObjectArray<'l, JString<'l>> {
        let names = super::super::all().into_iter();
        let names = names.map(|method| method.name.to_string() + &method.signature);
        new_strings(env, names.collect())
    }

    fn errorKinds(env) -> JObjectArray<'l, JString<'l>> {
        let kind = |kind: ErrorKind| {
            format!("{} {} {}", kind.exit_code(), kind.name(), kind.java_base())
        };
        new_strings(env, ErrorKind::ALL.map(kind).to_vec())
    }
    fn panic(env, message: JString<'l>) -> () {
        panic!("{}", message.try_to_string(env)?)
    }
}
