/** A large answer of a cluster. */
export interface Shape {
  readonly name: string;
  /** Bytes of the body. */
  readonly size: number;
  /** Bytes of each chunk (RFC 9112 §7.1); null: the length is announced. */
  readonly chunk: number | null;
  readonly encoding: 'gzip' | null;
  /** Path of the request. */
  readonly path: string;
}

const MB = 1_000_000;
const page = (name: string) => `/v1/statement/executing/20261121_015745_00001_bench/${name}/1`;

/**
 * Rows come in many small writes of the engine, large cells in few large ones; a spooled segment is there as a whole, and
 * its length is announced.
 */
export const shapes: readonly Shape[] = [
  { name: 'rows, 1 MB', size: MB, chunk: 8_192, encoding: null, path: page('rows1') },
  { name: 'rows, 16 MB', size: 16 * MB, chunk: 8_192, encoding: null, path: page('rows16') },
  { name: 'cells, 16 MB', size: 16 * MB, chunk: 65_536, encoding: null, path: page('cells16') },
  { name: 'gzip, 1 MB', size: MB, chunk: 32_768, encoding: 'gzip', path: page('gzip1') },
  { name: 'gzip, 16 MB', size: 16 * MB, chunk: 32_768, encoding: 'gzip', path: page('gzip16') },
  { name: 'spooled, 16 MB', size: 16 * MB, chunk: null, encoding: null, path: '/v1/spooled/download/16' },
];
