//! A build without the feature `cluster`: no link can be opened.

use super::{Draft, LinkError, Message, Settings, StoreError, Stored};
use bytes::Bytes;
use serde_json::Value;
use std::convert::Infallible;

pub struct Link(Infallible);

pub struct Subscription(Infallible);

impl Subscription {
    pub async fn next(&mut self) -> Option<(String, Bytes)> {
        match self.0 {}
    }
}

impl Link {
    pub async fn open(_: &Settings) -> Result<Self, LinkError> {
        Err(LinkError::Absent)
    }

    pub async fn lost(&self) {
        match self.0 {}
    }

    pub async fn store(&self, _: Draft) -> Result<Stored, StoreError> {
        match self.0 {}
    }

    pub async fn last(&self, _: &str, _: &str) -> Result<Option<Message>, LinkError> {
        match self.0 {}
    }

    pub async fn at(&self, _: &str, _: u64) -> Result<Option<Message>, LinkError> {
        match self.0 {}
    }

    pub async fn next(&self, _: &str, _: &str, _: u64) -> Result<Option<Message>, LinkError> {
        match self.0 {}
    }

    pub async fn subscribe(&self, _: String) -> Result<Subscription, LinkError> {
        match self.0 {}
    }

    pub async fn send(&self, _: String, _: Bytes) -> Result<(), LinkError> {
        match self.0 {}
    }

    pub async fn create_stream(&self, _: &str, _: &Value) -> Result<(), LinkError> {
        match self.0 {}
    }
}
