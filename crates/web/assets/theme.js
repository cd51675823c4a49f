// Applies the theme chosen in the console before the page is painted. Without a choice the page follows the system.
'use strict';
try {
  const theme = localStorage.getItem('theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
  // Storage is blocked.
}
