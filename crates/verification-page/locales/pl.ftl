number = Twój numer kończący się na { $tail }
not-your-number = To nie Twój numer?
sandbox = Tryb testowy: tylko symulowane numery telefonów
time-left = Pozostało:
support = Potrzebujesz pomocy?
language = Język

## Silent check by the mobile operator

start-title = Potwierdź swój numer telefonu
start-text = { $brand } prosi o potwierdzenie, że ten telefon ma Twój numer. Włącz dane komórkowe, wyłącz Wi-Fi, a następnie kontynuuj.
start-button = Potwierdź ten telefon
start-computer-text = { $brand } prosi o potwierdzenie Twojego numeru telefonu. Kontynuuj w telefonie z tym numerem:
scan-camera = Skieruj aparat telefonu na kod.
start-open = Otwórz link, który się pojawi.
start-follow = Wykonaj podane tam kroki. Ta strona przejdzie dalej sama.
start-here = Kontynuuj na tym urządzeniu
start-scan-label = Kod QR tej strony
wallet-text = { $brand } chce potwierdzić, że ten telefon ma Twój numer. Naciśnij przycisk i wyraź zgodę na następnym ekranie. Wi-Fi może pozostać włączone.
wallet-button = Potwierdź telefonem
wallet-again = Naciśnij przycisk jeszcze raz, aby kontynuować.
silent-title = Potwierdzanie numeru
silent-text = Twój operator komórkowy potwierdza numer. Potrwa to kilka sekund.
continue = Dalej
other-way = Spróbuj w inny sposób
stalled-title = Jeszcze brak odpowiedzi
stalled-text = Twój operator nie odpowiedział. Spróbuj ponownie albo wybierz inny sposób.
confirming-title = Prawie gotowe
confirming-text = Operator komórkowy odpowiedział. { $brand } kończy sprawdzanie.
confirming-own-text = Twój operator odpowiedział. Jeszcze jeden krok i gotowe.
confirming-elsewhere = Dokończ tam, gdzie zaczęto. Ta strona przejdzie dalej sama.
stalled-only-text = Operator komórkowy nie odpowiedział. Sprawdź, czy dane komórkowe są włączone, i spróbuj ponownie.
ask-whether-to-stop-title = Zakończyć tutaj?
ask-whether-to-stop-text = Nie ma innego sposobu potwierdzenia numeru.
elsewhere-title = Kontynuuj w telefonie
elsewhere-text = Twój numer jest potwierdzany w telefonie lub w innej przeglądarce. Ta strona przejdzie dalej sama.
allow-cookies = Ten krok wymaga pliku cookie, który przeglądarka zablokowała. Zezwól na pliki cookie dla tej strony i spróbuj ponownie.

## Text message from the user to us

text-title = Wyślij do nas SMS
text-text = Wyślij poniższą wiadomość bez zmian z telefonu, który chcesz potwierdzić. Obowiązuje zwykła cena SMS-a Twojego operatora.
text-warning = Wyślij ten SMS tylko wtedy, gdy potwierdzenie numeru to Twoja inicjatywa.
text-computer-text = Wyślij do nas SMS z telefonu, który chcesz potwierdzić. Obowiązuje zwykła cena SMS-a Twojego operatora.
text-open = Otwórz wiadomość, która się pojawi.
text-send = Wyślij ją bez zmian.
text-by-hand = Albo wpisz wiadomość ręcznie
text-button = Otwórz wiadomości
text-scan-label = Kod QR z wiadomością SMS
text-receiver = Do
text-body = Wiadomość
copy-receiver = Kopiuj numer
copy-body = Kopiuj wiadomość
copied = Skopiowano
copy-failed = Przeglądarka zablokowała kopiowanie. Tekst jest zaznaczony: skopiuj go ręcznie.
text-waiting = Czekamy na Twoją wiadomość…
text-cannot = Nie mogę wysłać SMS-a
other-sender-title = Wyślij z drugiej karty SIM
other-sender-text = Ten SMS przyszedł z innego numeru. Wyślij go ponownie z karty SIM o numerze kończącym się na { $tail }.
received-title = Otrzymaliśmy wiadomość
received-text = Sprawdzamy ją. Jeśli ta strona nie przejdzie dalej w ciągu kilku sekund, wyślij ponownie poniższą wiadomość bez zmian.
ask-whether-to-give-up-title = Nie możesz wysłać SMS-a?
ask-whether-to-give-up-text = Bez niego nie możemy potwierdzić Twojego numeru.
ask-whether-to-give-up-yes = Zakończ bez potwierdzenia
ask-if-wrong-number-title = To nie Twój numer?
ask-if-wrong-number-text = { $brand } prosi o potwierdzenie numeru kończącego się na { $tail }. Jeśli nie jest Twój, zakończ tutaj.
ask-if-wrong-number-yes = To nie mój numer
ask-no = Wróć

## SIM Swap check

sim-title = Jeszcze jedno sprawdzenie
sim-text = Pytamy operatora komórkowego, czy karta SIM była ostatnio wymieniana.

## Results

done-title = Numer potwierdzony
done-text = Dziękujemy. Twój numer telefonu jest potwierdzony.
mismatch-title = Numer niepotwierdzony
mismatch-phone-text = To nie jest numer tego telefonu. Sprawdź numer podany w { $brand } i spróbuj ponownie.
mismatch-text = Numer, który odpowiedział, nie jest tym podanym w { $brand }. Sprawdź numer i spróbuj ponownie.
failed-title = Nie udało się potwierdzić numeru
failed-text = Żaden z dostępnych sposobów nie zadziałał. Wróć do { $brand }, aby spróbować ponownie.
given-up-title = Numer nie został potwierdzony
given-up-text = Zakończono przed potwierdzeniem numeru. Wróć do { $brand }, aby spróbować ponownie.
wrong-number-title = Dziękujemy za informację
wrong-number-text = Niczego nie potwierdzono. Wróć do { $brand }, aby podać swój numer.
cancelled-title = Już niepotrzebne
cancelled-text = Firma { $brand } anulowała to potwierdzenie.
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

enter-code-text = Wpisz ten kod w aplikacji lub witrynie, z której pochodzi link. Można go użyć raz i wkrótce wygaśnie.
device-failed-text = Operator komórkowy nie mógł potwierdzić numeru. Wróć do aplikacji lub witryny, z której pochodzi link, aby spróbować w inny sposób.
not-mobile-title = Ten telefon nie korzysta z danych komórkowych
not-mobile-text = Numer można potwierdzić tylko przez dane komórkowe. Wyłącz Wi-Fi, wróć do aplikacji lub witryny, z której pochodzi link, i spróbuj ponownie.
used-title = Ten link został już użyty
other-browser-title = Rozpoczęto w innej przeglądarce
other-browser-text = Niczego nie potwierdzono. Jeśli to Ty zaczynasz, wróć do przeglądarki, w której zaczęto. W przeciwnym razie możesz zamknąć tę stronę.
start-again-text = Wróć do aplikacji lub witryny, z której pochodzi link, aby zacząć od nowa.
other-browser-cookies = Jeśli to wciąż ta sama przeglądarka, zezwól na pliki cookie i zacznij od nowa.

## Sign-in page, on which the user enters the phone number to sign in with

sign-in-title = Logowanie do { $brand }
sign-in-text = Wpisz numer telefonu komórkowego. Następnie sprawdzimy, czy należy do Ciebie.
sign-in-country = Kraj lub region
sign-in-choose-country = Wybierz…
sign-in-number = Numer telefonu komórkowego
sign-in-hint = Z numerem kierunkowym kraju lub bez niego
sign-in-sandbox-hint = Użyj symulowanego numeru, na przykład { $example }
sign-in-privacy = Użyjemy Twojego numeru tylko do zalogowania Cię do { $brand }.
sign-in-discover = Użyj numeru tego telefonu
sign-in-cancel = Anuluj
sign-in-enter-number = Wpisz numer samodzielnie
sign-in-stalled-text = Twój operator nie odpowiedział. Spróbuj ponownie lub wpisz numer.
sign-in-invalid = To nie wygląda na numer telefonu. Sprawdź go i spróbuj ponownie.
sign-in-not-supported = Nie możemy potwierdzić tego numeru. Spróbuj podać inny numer komórkowy.
sign-in-too-many-attempts = Zbyt wiele prób z tym numerem. Spróbuj później lub użyj innego numeru.
sign-in-try-later = Nie możemy teraz sprawdzać numerów. Spróbuj ponownie za minutę.
sign-in-missing-country = Wybierz kraj lub zacznij numer od + i numeru kierunkowego kraju.
sign-in-ended-title = Wróć tam, gdzie zaczęto
sign-in-ended-text = Tutaj to już wszystko. Wróć do przeglądarki, w której rozpoczęto logowanie.
sign-in-cancelled-title = Anulowano logowanie
sign-in-cancelled-text = Nie zalogowano. Wróć do { $brand }, aby spróbować ponownie.
sign-in-expired-title = Trwało to zbyt długo
sign-in-expired-text = Dla bezpieczeństwa trzeba zacząć od nowa. Wróć do { $brand }.
sign-in-failed-text = Nie udało się zalogować. Wróć do { $brand }, aby spróbować ponownie.
sign-in-refused-title = Nie można się zalogować
sign-in-refused-text = Aplikacja lub strona, z której przychodzisz, wysłała nieprawidłowe żądanie. Wróć i spróbuj ponownie lub poproś o pomoc jej obsługę.
sign-in-detail = Szczegóły dla programistów
