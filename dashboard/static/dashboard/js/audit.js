// The audit log: a choice filters at once.

document
  .querySelectorAll("#filters select, #filters input[type=date]")
  .forEach((field) => field.addEventListener("change", () => field.form.requestSubmit()));
