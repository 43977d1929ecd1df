import { productNames } from '../../src/model/names.ts';
import type { RuleRequest } from '../../src/rules/decision.ts';
import { Evaluation, EvaluationError } from '../../src/rules/evaluation.ts';
import { compileProgram } from '../../src/rules/language/program.ts';
import { CompileError } from '../../src/rules/language/source.ts';
import { defaultRuleLimits } from '../../src/rules/limits.ts';
import { QueryObject, RequestObject, UserObject } from '../../src/rules/requestObjects.ts';
import { JavaMap } from '../../src/rules/values/collections.ts';
import type { Value } from '../../src/rules/values/value.ts';

const names = productNames('Engine');

/** A submission with a few headers. */
export const sampleRequest: RuleRequest = {
  method: 'POST',
  path: '/v1/statement',
  query: null,
  headers: [...['Host', 'gateway.example:8080'], ...['X-Engine-User', 'alice'], ...['X-Engine-Source', 'airflow']],
  scheme: 'http',
  serverName: 'gateway.example',
  serverPort: 8080,
  remoteAddr: '10.1.2.3',
  remoteUser: null,
  formBody: null,
  isSubmission: true,
  user: { user: 'alice', userInfo: { sub: 'alice', groups: ['a', 'b'] } },
  queryProperties: {
    errorMessage: null,
    isNewQuerySubmission: true,
    queryType: 'Query',
    resourceGroupQueryType: 'SELECT',
    defaultCatalog: 'hive',
    defaultSchema: 'web',
    tables: [['hive', 'web', 'events']],
    catalogs: ['hive'],
    schemas: ['web'],
    catalogSchemas: ['hive.web'],
    body: 'SELECT * FROM events',
    queryId: null,
  },
};

/** What became of a text. */
export interface Attempt {
  readonly outcome: 'value' | 'compile error' | 'evaluation error';
  readonly value: Value;
  readonly message: string;
  /** Steps that it took. */
  readonly steps: number;
  readonly evaluation: Evaluation;
}

/** Compiles and runs a text against the sample request. Any other exception is a defect and thrown. */
export function attempt(text: string): Attempt {
  const evaluation = new Evaluation({
    request: new RequestObject(sampleRequest, names),
    state: new JavaMap(),
    result: new JavaMap(),
    user: new UserObject(sampleRequest.user ?? { user: null, userInfo: null }),
    query: sampleRequest.queryProperties === null ? undefined : new QueryObject(sampleRequest.queryProperties),
  });
  const steps = (): number => defaultRuleLimits.steps - evaluation.stepsLeft;
  try {
    const value = compileProgram(text, { names, analyzeRequest: true }).run(evaluation);
    return { outcome: 'value', value, message: '', steps: steps(), evaluation };
  } catch (error) {
    if (error instanceof CompileError) {
      return { outcome: 'compile error', value: null, message: error.message, steps: 0, evaluation };
    }
    if (error instanceof EvaluationError) {
      return { outcome: 'evaluation error', value: null, message: error.message, steps: steps(), evaluation };
    }
    throw error;
  }
}
