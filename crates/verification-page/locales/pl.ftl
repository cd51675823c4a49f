number = Twój numer kończący się na { $tail }
sandbox = Tryb testowy: tylko symulowane numery telefonów

## Silent check by the mobile operator

start-title = Potwierdź swój numer telefonu
start-text = { $brand } prosi o potwierdzenie, że ten telefon ma Twój numer. Włącz dane komórkowe, wyłącz Wi-Fi, a następnie kontynuuj.
start-button = Potwierdź ten telefon
silent-title = Potwierdzanie numeru
silent-text = Twój operator komórkowy potwierdza numer. Potrwa to kilka sekund.
continue = Dalej
other-way = Spróbuj w inny sposób
confirming-title = Prawie gotowe
confirming-text = Operator komórkowy odpowiedział. { $brand } kończy sprawdzanie.

## Text message from the user to us

text-title = Wyślij do nas SMS
text-text = Wyślij poniższą wiadomość bez zmian z telefonu, który chcesz potwierdzić. Obowiązuje zwykła cena SMS-a Twojego operatora.
text-button = Otwórz aplikację wiadomości
text-scan = Zeskanuj ten kod aparatem telefonu, aby otworzyć w nim wiadomość.
text-scan-label = Kod QR z wiadomością SMS
text-receiver = Do
text-body = Wiadomość
copy-receiver = Kopiuj numer
copy-body = Kopiuj wiadomość
copied = Skopiowano
text-waiting = Czekamy na Twoją wiadomość. Ta strona przejdzie dalej sama.
text-cannot = Nie mogę wysłać SMS-a
received-title = Otrzymaliśmy wiadomość
received-text = Sprawdzamy ją. Jeśli ta strona nie przejdzie dalej w ciągu kilku sekund, wyślij ponownie poniższą wiadomość bez zmian.

## SIM Swap check

sim-title = Jeszcze jedno sprawdzenie
sim-text = Pytamy operatora komórkowego, czy karta SIM była ostatnio wymieniana.

## Results

done-title = Numer potwierdzony
done-text = Dziękujemy. Twój numer telefonu jest potwierdzony.
mismatch-title = Numer niepotwierdzony
mismatch-text = Ten telefon nie ma numeru podanego w { $brand }. Sprawdź numer i spróbuj ponownie.
failed-title = Nie udało się potwierdzić numeru
failed-text = Żaden z dostępnych sposobów nie zadziałał. Wróć do { $brand }, aby spróbować ponownie.
expired-title = Ten link wygasł
expired-text = Numer nie został potwierdzony na czas. Wróć do { $brand }, aby zacząć od nowa.
return-link = Wróć do { $brand }
close = Możesz już zamknąć tę stronę.

## Errors

unknown-title = Ten link jest nieprawidłowy
unknown-text = Sprawdź, czy otwarto cały link, albo zacznij od nowa w witrynie, z której pochodzi.
busy-title = Zbyt wiele prób
busy-text = Poczekaj minutę i spróbuj ponownie.
unavailable-title = Coś poszło nie tak
unavailable-text = Strona jest teraz niedostępna. Spróbuj ponownie za minutę.
refused-title = Otwórz stronę ponownie
refused-text = Ze względów bezpieczeństwa można kontynuować tylko z tej strony.
retry = Spróbuj ponownie

## Page of a single check, whose link was opened in a browser

device-code-text = Wpisz ten kod w aplikacji lub witrynie, z której pochodzi link. Można go użyć raz i wkrótce wygaśnie.
device-failed-text = Operator komórkowy nie mógł potwierdzić numeru. Wróć do aplikacji lub witryny, z której pochodzi link, aby spróbować w inny sposób.
not-mobile-title = Ten telefon nie korzysta z danych komórkowych
not-mobile-text = Numer można potwierdzić tylko przez dane komórkowe. Wyłącz Wi-Fi, wróć do aplikacji lub witryny, z której pochodzi link, i spróbuj ponownie.
used-title = Ten link został już użyty
start-again-text = Wróć do aplikacji lub witryny, z której pochodzi link, aby zacząć od nowa.
