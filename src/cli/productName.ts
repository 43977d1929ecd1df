import { readFile } from 'node:fs/promises';
import type { GatewayConfig } from '../config/gatewayConfig.ts';
import { createLogging } from '../config/logger.ts';
import { productNamedIn } from '../config/referenceNames.ts';
import { REFERENCE_PRODUCT } from '../model/names.ts';
import { hasReferenceMigrations } from '../store/referenceMigrations.ts';
import { databaseSettings } from './settings.ts';

/** What stands in for a product name that the configuration does not give. */
export interface InferredProduct {
  /** Null: nothing says that it is not the default. */
  readonly productName: string | null;
  /** For people: why, or what could not be asked; null where there is nothing to say. */
  readonly message: string | null;
}

const NAME_IT = 'write "protocol: {productName: Trino}" (or Engine) into the configuration';

/**
 * Infers the product name of a configuration without `protocol.productName`, by names in its rules file, else by the
 * history of migrations in its database (docs/migration.md#product-name).
 */
export async function inferProductName(config: GatewayConfig): Promise<InferredProduct> {
  const { rulesConfigPath } = config.routingRules;
  const rules = rulesConfigPath === null ? '' : await readFile(rulesConfigPath, 'utf8').catch(() => '');
  const named = productNamedIn(rules);
  if (named === 'Engine') return { productName: null, message: null };
  if (named !== null) {
    const message = `is taken as ${named}, as ${rulesConfigPath} names objects or headers of ${named}; ${NAME_IT}`;
    return { productName: named, message };
  }
  const { logger } = createLogging({ level: 'fatal', destination: { write: () => undefined } });
  const isReference = await hasReferenceMigrations(databaseSettings(config), logger);
  if (isReference === null) {
    const message = `is taken as Engine, as the database could not be asked whether it is one of Trino Gateway; ${NAME_IT}`;
    return { productName: null, message };
  }
  if (!isReference) return { productName: null, message: null };
  const message = `is taken as ${REFERENCE_PRODUCT}, as the database holds the migrations of Trino Gateway; ${NAME_IT}`;
  return { productName: REFERENCE_PRODUCT, message };
}
