import { GatewayError } from '../../model/errors.ts';
import { VersionConflict } from '../sources/source.ts';

/** Number of times that a write is decided again as the resource changed under it. */
const ATTEMPTS = 5;

/**
 * Decides on a write, and again where the resource changed meanwhile. Rejects as the decision does; EG_CONFLICT where the
 * resource changes each time.
 * @param refresh has own outcomes follow the source
 */
export async function decideRepeatedly<T>(decide: () => Promise<T>, refresh: () => void): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await decide();
    } catch (error) {
      if (!(error instanceof VersionConflict)) throw error;
      if (attempt === ATTEMPTS) throw new GatewayError('EG_CONFLICT', `${error.message}; try again`, { cause: error });
      // The source has the other's change at hand or is reading it.
      await new Promise((resolve) => setTimeout(resolve, 50 * attempt));
      refresh();
    }
  }
}
