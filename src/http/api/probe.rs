//! Liveness, readiness and metrics, for machines that watch.

use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::json;

use super::json as answer;
use crate::http::app::App;
use crate::http::body::Body;
use crate::http::problem::Problem;
use crate::metrics::CONTENT_TYPE;
use crate::service::Refused;
use crate::shutdown::Phase;

/// Whether the process is worth keeping: 503 once the store or the core has failed.
///
/// # Errors
/// `unhealthy`.
pub fn healthz(app: &App) -> Result<Response<Body>, Problem> {
    if app.service.is_unhealthy() {
        return Err(Refused::Unhealthy.into());
    }
    Ok(answer(StatusCode::OK, &json!({"status": "ok"})))
}

/// Whether it takes jobs right now: 503 `draining` or `unhealthy`, 507 `disk_full`.
///
/// # Errors
/// These.
pub async fn readyz(app: &App) -> Result<Response<Body>, Problem> {
    if app.shutdown.phase() > Phase::Running {
        return Err(Refused::Draining.into());
    }
    app.service.ready().await?;
    Ok(answer(StatusCode::OK, &json!({"status": "ready"})))
}

/// Everything of contract 10.
///
/// # Errors
/// What `Service::vitals` refuses.
pub async fn metrics(app: &App) -> Result<Response<Body>, Problem> {
    let text = app.metrics.render(&app.service.vitals().await?);
    let mut response = Response::new(Body::whole(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    Ok(response)
}
