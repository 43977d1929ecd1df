/**
 * A process that does the same at all times, about as much as a replica under the load and in pieces like a replica's:
 * when its event loop is delayed more than before, the machine has become slower or has others to serve.
 */
import './probe.ts';

const PIECE_EVERY_MS = 20;
/** About two milliseconds of a processor a piece. */
const ROUNDS = 80;

const rows = Array.from({ length: 20 }, (_, id) => ({ id, name: `row ${id}`, values: [id, id / 3] }));

setInterval(() => {
  let text = JSON.stringify(rows);
  for (let round = 0; round < ROUNDS; round++) text = JSON.stringify(JSON.parse(text));
}, PIECE_EVERY_MS);
