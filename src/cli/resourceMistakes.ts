import { existsSync } from 'node:fs';
import type { GatewayConfig } from '../config/gatewayConfig.ts';
import { productNames } from '../model/names.ts';
import { ruleCompilerOptions } from './settings.ts';
import { validate } from './validate.ts';

/**
 * Checks the manifests directory and the rules file of a configuration as `validate` does.
 * @returns its output if there are mistakes, else null
 */
export async function resourceMistakes(config: GatewayConfig): Promise<string | null> {
  const { resources, routingRules, protocol } = config;
  const { rulesConfigPath, rulesType, defaultPriority } = routingRules;
  const paths = resources.source === 'directory' && resources.directory !== null ? [resources.directory] : [];
  // A rules file may be created later; the gateway follows its path.
  if (rulesType === 'FILE' && rulesConfigPath !== null && existsSync(rulesConfigPath)) paths.push(rulesConfigPath);
  if (paths.length === 0) return null;
  const { differenceWarnings } = ruleCompilerOptions(config);
  const context = {
    names: productNames(protocol.productName),
    // Rules that need the analysis are not mistakes of their files.
    analyzeRequest: true,
    differenceWarnings: differenceWarnings !== false,
  };
  let output = '';
  const stdout = { write: (text: string) => (output += text) };
  const code = await validate(
    paths,
    { context, defaultPriority: defaultPriority ?? undefined, isStrict: false, gatewayClass: undefined },
    { stdout },
  );
  return code === 0 ? null : output;
}
