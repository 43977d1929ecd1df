import { readFile } from 'node:fs/promises';
import type { Logger } from 'pino';
import type { ProductNames } from '../../model/names.ts';
import { openUserMapping, type UserMapping, type UserMappingSettings } from './userMapping.ts';

/** What following the file of a mapping works with. */
export interface FollowedUserMappingOptions {
  readonly names: ProductNames;
  /** Milliseconds between two looks at the file. */
  readonly refreshTime: number;
  readonly logger: Logger;
}

/** The mapping of certificates to users that is in force; another one after each change of its file. */
export interface FollowedUserMapping {
  readonly current: UserMapping;
  stop(): void;
}

/**
 * Makes the mapping of the configuration and follows its file, where it has one: a changed one is taken, one that cannot be
 * used is reported once and leaves the last good one in force. Null where users are not taken from certificates.
 * @throws GatewayError EG_IMPOSSIBLE naming the key and the fix, at the start
 */
export async function followUserMapping(
  settings: UserMappingSettings,
  options: FollowedUserMappingOptions,
): Promise<FollowedUserMapping | null> {
  const path = settings.clientCertificateUserMappingFile;
  // Read before the mapping is made: what changes in between is then a change.
  const text = path === null ? null : await textOf(path);
  const current = await openUserMapping(settings, options.names);
  if (current === null) return null;
  return path === null ? { current, stop: () => undefined } : new FollowedFile(path, settings, options, current, text);
}

class FollowedFile implements FollowedUserMapping {
  readonly #path: string;
  readonly #settings: UserMappingSettings;
  readonly #options: FollowedUserMappingOptions;
  readonly #timer: NodeJS.Timeout;
  #current: UserMapping;
  /** What was looked at last, usable or not; null: it could not be read. */
  #text: string | null;
  #isLooking = false;

  constructor(
    path: string,
    settings: UserMappingSettings,
    options: FollowedUserMappingOptions,
    current: UserMapping,
    text: string | null,
  ) {
    this.#path = path;
    this.#settings = settings;
    this.#options = options;
    this.#current = current;
    this.#text = text;
    this.#timer = setInterval(() => void this.#look(), options.refreshTime).unref();
  }

  get current(): UserMapping {
    return this.#current;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Never rejects. */
  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    const { names, logger } = this.#options;
    const file = this.#path;
    try {
      const text = await textOf(file);
      if (text === this.#text) return;
      this.#text = text;
      const mapping = await openUserMapping(this.#settings, names);
      if (mapping === null) return;
      this.#current = mapping;
      logger.info({ file }, 'changed file of user mappings taken');
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      logger.error({ file, reason }, 'changed file of user mappings refused; the last good rules stay in force');
    } finally {
      this.#isLooking = false;
    }
  }
}

/** Null where it cannot be read. */
async function textOf(path: string): Promise<string | null> {
  return await readFile(path, 'utf8').catch(() => null);
}
