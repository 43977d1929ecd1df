import { isRecord } from '../../model/record.ts';
import { compileRule } from '../../rules/compile/compiledRule.ts';
import { plainRule, type RuleDefinition } from '../../rules/compile/definition.ts';
import { groupFindings } from '../groupFindings.ts';
import type { CheckedManifest, ManifestFinding } from '../manifestFinding.ts';
import { DEFAULT_PRIORITY } from './spec.ts';

/** Mistakes in the expressions of a RoutingRule, and what will fail once it is reached. */
export function ruleFindings(manifest: CheckedManifest): readonly ManifestFinding[] {
  const { condition, routeTo } = manifest.spec;
  const ofGroup = isRecord(routeTo) ? groupFindings(routeTo.routingGroup, 'spec.routeTo.routingGroup') : [];
  return typeof condition === 'string' ? [...ofGroup, ...textFindings(manifest, condition)] : ofGroup;
}

function textFindings(manifest: CheckedManifest, condition: string): readonly ManifestFinding[] {
  const compiled = compileRule(definitionOf(manifest, condition), manifest.context);
  if ('rule' in compiled) {
    return compiled.rule.warnings.map(({ field, isMistake, message, line, column }) => ({
      severity: isMistake === true ? 'problem' : 'warning',
      message: `spec.${field}: ${message}`,
      at: { line, column },
    }));
  }
  return compiled.problems.map(({ field, line, column, message }) => ({
    severity: 'problem',
    message: `spec.${field}: ${message}`,
    at: { line, column },
  }));
}

function definitionOf(manifest: CheckedManifest, condition: string): RuleDefinition {
  const { actions } = manifest.spec;
  const texts = Array.isArray(actions) ? actions.filter((action) => typeof action === 'string') : [];
  return {
    ...plainRule,
    name: manifest.name,
    origin: 'resource',
    description: '',
    priority: DEFAULT_PRIORITY,
    condition: { text: condition, field: 'condition', place: manifest.textPlace(['spec', 'condition']) },
    actions: texts.map((text, index) => ({
      text,
      field: `actions[${index}]`,
      place: manifest.textPlace(['spec', 'actions', index]),
    })),
  };
}
