//! W3C trace context (<https://www.w3.org/TR/trace-context/>) across NATS headers, gRPC metadata
//! and HTTP headers. Transports carry one string; this module makes and takes it.

use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The header's name on every transport.
pub const HEADER: &str = "traceparent";

/// The current span as a `traceparent`, if it is part of a trace.
#[must_use]
pub fn current() -> Option<String> {
    of(&Span::current())
}

/// A span as a `traceparent`, if it is part of a trace.
#[must_use]
pub fn of(span: &Span) -> Option<String> {
    let context = span.context();
    let span = context.span();
    let sc = span.span_context();
    sc.is_valid()
        .then(|| format!("00-{}-{}-{:02x}", sc.trace_id(), sc.span_id(), sc.trace_flags().to_u8()))
}

/// The trace id of a `traceparent`, if it is well formed.
#[must_use]
pub fn trace_id(traceparent: &str) -> Option<String> {
    parse(traceparent).map(|sc| sc.trace_id().to_string())
}

fn parse(traceparent: &str) -> Option<SpanContext> {
    let mut parts = traceparent.split('-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    if version == "ff" || version.len() != 2 || trace.len() != 32 || span.len() != 16 {
        return None;
    }
    let sc = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        TraceFlags::new(u8::from_str_radix(flags, 16).ok()?),
        true,
        TraceState::default(),
    );
    sc.is_valid().then_some(sc)
}

/// Makes `span` a child of the caller's span. A malformed header is as none at all.
pub fn adopt(span: &Span, traceparent: Option<&str>) {
    if let Some(sc) = traceparent.and_then(parse) {
        let parent = opentelemetry::Context::new().with_remote_span_context(sc);
        // A span that no exporter records has no context to change.
        let _ = span.set_parent(parent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_header_is_as_none() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(trace_id(good).as_deref(), Some("0af7651916cd43dd8448eb211c80319c"));
        for bad in
            ["", "00-0-0-01", &good.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32))]
        {
            assert_eq!(trace_id(bad), None, "{bad}");
        }
    }
}
