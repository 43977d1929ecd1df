import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import { keySource } from '../../api/auth/openAuthentication.ts';
import { sessionKeys } from '../../api/auth/sessions.ts';
import { QueueKey } from '../../gateway/queue/queueKey.ts';
import { GatewayError } from '../../model/errors.ts';
import type { Secret } from '../../model/secret.ts';
import { parseJdbcUrl } from '../../store/jdbcUrl.ts';
import { databaseSettings } from '../settings.ts';
import type { GatewayContext } from './context.ts';

/** Interval in which files of secrets are read. */
const FOLLOW_MS = 5_000;
/** Time for which an earlier secret opens what waits, if it is not configured any more. */
const EARLIER_MS = 600_000;

/**
 * The key of the queue: derived from `admission.secret`, the key of sessions, the password of the database, or a file
 * next to that of SQLite; never from anything in the database. Texts of files are followed.
 */
export async function openQueueKey({ config, clock, logger, onClose }: GatewayContext): Promise<QueueKey> {
  const { secret, previousSecrets } = config.admission;
  if (secret !== null) return followed([secret, ...previousSecrets]);
  const source = keySource(config.authentication);
  if (source !== null) {
    if ('secret' in source) return followed([source.secret, ...source.previous]);
    return new QueueKey((await sessionKeys(source)).seal);
  }
  const parsed = parseJdbcUrl(databaseSettings(config));
  const target = 'target' in parsed ? parsed.target : null;
  if (target?.dialect === 'sqlite' && target.file !== ':memory:') return new QueueKey(await fileKey(target.file));
  const password = target === null || target.dialect === 'sqlite' ? null : target.password;
  if (typeof password === 'string') return new QueueKey(password);
  if (password !== null) return followed([password]);
  if (target?.dialect !== 'sqlite') logger.warn({ key: 'admission.secret' }, UNSHARED);
  return new QueueKey(randomBytes(KEY_BYTES));

  function followed(secrets: readonly (Secret | string)[]): QueueKey {
    let texts = secrets.map((each) => (typeof each === 'string' ? each : each.text)).filter((text) => text !== '');
    const earlier = new Map<string, number>();
    const key = new QueueKey(...texts);
    const follow = async () => {
      const read = await Promise.all(secrets.map((each) => (typeof each === 'string' ? each : each.read())));
      const next = read.filter((text) => text !== '');
      const now = clock.monotonic();
      if (!isDeepStrictEqual(next, texts)) for (const text of texts) earlier.set(text, now + EARLIER_MS);
      texts = next;
      for (const [text, until] of earlier) if (until <= now) earlier.delete(text);
      if (texts.length > 0) key.rotate([...new Set([...texts, ...earlier.keys()])]);
    };
    const timer = setInterval(() => void follow(), FOLLOW_MS).unref();
    onClose(() => clearInterval(timer));
    return key;
  }
}

const KEY_BYTES = 32;
const UNSHARED =
  'queries that wait are encrypted with a key of this process, as there is no secret that replicas share: other replicas cannot continue them. Set admission.secret (docs/limits.md, The queue)';

/** The key of a file next to the database, which is made at the first start; only its owner can read it. */
async function fileKey(database: string): Promise<Buffer> {
  const path = `${database}.queue-key`;
  try {
    await writeFile(path, randomBytes(KEY_BYTES), { mode: 0o600, flag: 'wx' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw unreadable(path, error);
  }
  const key = await readFile(path).catch((error: unknown) => {
    throw unreadable(path, error);
  });
  if (key.length < KEY_BYTES) throw unreadable(path, new Error('it is too short'));
  return key;
}

function unreadable(path: string, error: unknown): GatewayError {
  const reason = error instanceof Error ? error.message : String(error);
  return new GatewayError('EG_IMPOSSIBLE', `The key file of the queue, ${path}, cannot be used: ${reason}`, {
    field: 'dataStore.jdbcUrl',
  });
}
