// What the CDK's validator says of a template with these resource types, in each of these regions.
// Arguments: the folder of @aws/cloudformation-validate, a file to write templates to. Standard
// input: {"regions": [...], "types": [...]}. Output: {REGION: [TYPE, ...]}, the types it lacks.
const fs = require("node:fs");
const validate = require(process.argv[2]);
const file = process.argv[3];
const { regions, types } = JSON.parse(fs.readFileSync(0, "utf8"));
const engine = new validate.CompositeEngine({});
const Resources = Object.fromEntries(types.map((Type, place) => [`R${place}`, { Type }]));
fs.writeFileSync(file, JSON.stringify({ Resources }));
const lacking = {};
for (const region of regions) {
  const { diagnostics } = engine.validateTemplate(new validate.TemplateFile(file), {
    detailLevel: "STANDARD",
    pseudoParameterOverrides: { accountId: "111122223333", region },
    severityLevel: "WARN",
  });
  const found = diagnostics.filter((one) => one.ruleId === "F3006");
  lacking[region] = found.map((one) => types[Number(one.entity.logicalId.slice(1))]).sort();
}
console.log(JSON.stringify(lacking));
