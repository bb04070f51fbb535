use super::*;
use crate::boot::Exchange;
use crate::transport::conformance;

fn open(way: Way, place: Place, exchange: &mut dyn Exchange) -> Result<Shm> {
    let mut shm = Shm::open(place)?;
    shm.connect(&exchange.allgather(&shm.card()?)?)?;
    let own = serde_json::to_vec(&shm.probe(Some(way))).unwrap();
    let findings: Vec<_> =
        exchange.allgather(&own)?.iter().map(|f| serde_json::from_slice(f).unwrap()).collect();
    shm.agree(&findings, Some(way))?;
    Ok(shm)
}

#[test]
fn the_contract_is_kept_among_threads() {
    for (size, way) in [(1, Way::Writev), (1, Way::Ring), (3, Way::Writev), (4, Way::Ring)] {
        conformance::on_threads(size, |place, exchange| open(way, place, exchange));
    }
}
