// Shows the copy buttons, which are hidden without JavaScript.
'use strict';
for (const button of document.querySelectorAll('button[data-copies]')) {
  const source = document.getElementById(button.dataset.copies);
  if (!source || !navigator.clipboard) continue;
  const label = button.textContent;
  button.hidden = false;
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(source.textContent.trim());
    button.textContent = 'Copied';
    setTimeout(() => { button.textContent = label; }, 2000);
  });
}
