#!/bin/sh
# Checks all folders together, and compares the decisions of the teams' rules with expected.txt. Exit code 1: there are mistakes.
set -eu
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
kubectl kustomize platform > "$out/platform.yaml"
for team in $(ls platform/namespaces); do
  kubectl kustomize "teams/$team" > "$out/$team.yaml"
done
engine-gateway validate "$out"
failed=0
while read -r team request expected; do
  actual=$(engine-gateway evaluate --rules "$out/$team.yaml" --request "tests/$request" < /dev/null | head -n 1)
  [ "$actual" = "$expected" ] && continue
  echo "$team, $request: $actual; expected: $expected"
  failed=1
done < tests/expected.txt
exit "$failed"
